"""DAG versions, jobs, generations and edges, and which of them are current. Written by deploys, read by all slices above."""
