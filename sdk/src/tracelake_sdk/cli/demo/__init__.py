"""`tracelake demo`: a small DAG on a real system, told in plain sentences."""
