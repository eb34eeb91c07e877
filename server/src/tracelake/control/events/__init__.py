"""Events, their sameness, and the ledger that accounts for each at every subscriber."""
