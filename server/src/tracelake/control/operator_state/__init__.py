"""What operators remember between their tasks: one value a generation, moved by compare-and-swap."""
