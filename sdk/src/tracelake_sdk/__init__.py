"""The words and the wire of Tracelake: what a notebook, a service or the command line needs, and nothing heavier."""
