"""From queued to running: `claiming.Claims` takes tasks for a worker and starts their attempts, whose leases `heartbeats` renews and `reaping` ends."""
