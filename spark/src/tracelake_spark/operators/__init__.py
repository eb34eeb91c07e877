"""The operators of the runtime `spark`, one program a file."""
