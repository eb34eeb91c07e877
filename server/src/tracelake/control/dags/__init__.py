"""DAG versions, jobs, generations and edges: who is current. Written by deploys, read by everything above."""
