"""Explain: datasets, their versions and the reasons behind them, read from all slices, without writes."""
