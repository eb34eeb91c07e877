"""Query processes: they answer SQL over pinned versions. They know control over HTTP, and no database.

Entry point: `process.run`. `app` takes a question, `front` has its datasets pinned and answers it, `engines` hands it one of the processes that run
the program in `engine`.
"""
