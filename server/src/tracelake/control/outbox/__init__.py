"""Side effects that a committed change asked for, performed at least once with the row's id as idempotency key."""
