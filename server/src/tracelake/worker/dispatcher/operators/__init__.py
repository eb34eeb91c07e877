"""The operators of runtime `dispatcher`: platform code that handles events and ranges, never rows; each one pure function."""
