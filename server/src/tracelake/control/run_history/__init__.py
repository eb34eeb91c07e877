"""Run history: exactly one row per attempt and output, written by whatever makes the attempt final."""
