"""Explain: datasets, their versions and the reasons behind them, read from everything and written nowhere."""
