"""The embedded system: a supervisor and its processes, with their own Postgres, in one folder."""
