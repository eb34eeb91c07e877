"""The dataset registry: which datasets there are, who produces them, and the authority for name → uuid."""
