"""The commands and their options, one module for each noun. A command imports its action when it runs: `tracelake --help` must not wait for it."""
