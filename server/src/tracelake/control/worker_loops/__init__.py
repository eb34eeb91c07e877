"""Background loops of workers that fail, as the workers report them: the entry point is `store`, and `examining` for the doctor."""
