"""Spark operators and the warm Spark host: the only package that imports Spark."""
