"""Query processes: they run SQL over pinned versions. They call control over HTTP and have no database.

Entry point: `process.run`. `app` accepts a query, `front` pins its datasets and answers it, `engines` provides one of the processes that run
the program in `engine`.
"""
