"""`tracelake …`: the command line, thin over the client. The extra `tracelake-sdk[cli]` installs typer and rich for it."""
