"""`python -m tracelake_sdk.cli` is `tracelake`."""

from tracelake_sdk.cli.entry import main

main()
