"""`tracelake …`: the command line, thin over the client. Its typer and rich come with the extra `tracelake-sdk[cli]`."""
