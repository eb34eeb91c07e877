"""`tracelake demo`: a small DAG on a real system, explained step by step."""
