"""The program of one engine: a DuckDB that has no credentials and can open only pinned files. Entry point: `process.main`.

It answers the requests of `contract`; `gate` and `replayability` check a statement before `engine` runs it. `tracelake.query.engines` starts it.
"""
