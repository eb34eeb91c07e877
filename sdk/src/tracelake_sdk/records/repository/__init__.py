"""The metadata repository: one interface, the same over files, over HTTP and in memory."""
