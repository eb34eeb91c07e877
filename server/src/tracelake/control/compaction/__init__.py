"""Compaction: partitions of old records move from Postgres to files, or are dropped."""
