"""Postgres: connections, transactions with roles, named queries, migrations and wake-ups."""
