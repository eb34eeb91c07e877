"""Queries: pins that protect the files being read, receipts for replay, and saved queries."""
