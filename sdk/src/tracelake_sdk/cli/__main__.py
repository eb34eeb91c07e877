"""`python -m tracelake_sdk.cli` is `tracelake`."""

from tracelake_sdk.cli.main import main

main()
