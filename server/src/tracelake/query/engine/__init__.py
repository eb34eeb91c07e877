"""The program of one engine: a DuckDB that holds no credential and reaches pinned files alone. Entry point: `process.main`.

It answers the questions of `contract`; a statement is judged by `gate` and `replayability` before `engine` runs it. `tracelake.query.engines` starts it.
"""
