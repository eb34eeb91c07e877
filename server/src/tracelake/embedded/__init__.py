"""The system that runs by itself in one folder: a Postgres of its own, and a supervisor over the processes."""
