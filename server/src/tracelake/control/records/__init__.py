"""Metadata records on Postgres: kinds, records, sameness, the newest of each, and the log to tail."""
