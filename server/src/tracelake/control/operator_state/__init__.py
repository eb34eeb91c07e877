"""The state that operators keep between tasks: one value per generation, changed by compare-and-swap."""
