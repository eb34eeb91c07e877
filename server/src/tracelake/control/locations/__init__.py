"""Locations: the named roots that DAGs read files from, who defines them, and who may use them."""
