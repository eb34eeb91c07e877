"""Who calls: orgs, users, roles and tokens. Org and roles come from Postgres, never from claims or headers."""
