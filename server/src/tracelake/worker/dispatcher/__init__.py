"""The worker of runtime `dispatcher`, for events and ranges and never rows. Entry point: `dispatcher_worker.DispatcherWorker`.

It runs the pure functions of `operators`, which `operators.registry` names.
"""
