"""Side effects of committed changes, performed at least once with the row's id as idempotency key."""
