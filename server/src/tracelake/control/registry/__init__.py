"""The dataset registry: which datasets exist, who produces them, and the mapping from name to uuid."""
