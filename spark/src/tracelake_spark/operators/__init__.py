"""The operators of the runtime `spark`."""
