"""OpenLakeTx: decided changes become versions of Delta tables, in order, once."""
