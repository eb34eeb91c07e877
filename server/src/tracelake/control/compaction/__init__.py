"""Compaction: partitions of old records leave Postgres, for files or for good."""
