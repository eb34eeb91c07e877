"""The programs that measure the peers; each runs in its peer's own environment and imports nothing of ours."""
