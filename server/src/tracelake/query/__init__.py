"""Queries over pinned versions: a front that pins and answers, and engine processes that hold no credential."""
