"""Metadata records on Postgres: kinds, records, identities, the latest of each, and the log to tail."""
