"""Rules measured by Spark, for data that is too big for one machine; the same checks as everywhere, with the same results."""
