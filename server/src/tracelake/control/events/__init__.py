"""Events, their identity, and the ledger with one line for each event and subscriber."""
