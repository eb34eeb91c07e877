"""Datasets, their versions and scopes, and what was measured in their files."""

from tracelake_sdk.datasets.dataset import (
    Column,
    Dataset,
    Explanation,
    PinnedVersion,
    Reason,
    Snapshot,
    Version,
    VersionPart,
)

__all__ = [
    "Column",
    "Dataset",
    "Explanation",
    "PinnedVersion",
    "Reason",
    "Snapshot",
    "Version",
    "VersionPart",
]
