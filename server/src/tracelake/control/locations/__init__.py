"""Locations: the named places that DAGs read files from, who defines them, and who may use them."""
