"""Run history: exactly one row per attempt and output, written by the transaction that ends the attempt."""
