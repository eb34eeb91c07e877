"""Records that have left Postgres: which files hold them, and how they are read."""
