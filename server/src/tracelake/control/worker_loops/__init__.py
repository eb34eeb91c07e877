"""Background loops of workers that fail, as the workers report them: the entry point is `store`, and `health` for `tracelaked doctor`."""
