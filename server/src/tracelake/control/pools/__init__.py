"""Worker pools: where a job's tasks wait for workers. Every runtime has one pool, `default`, as large as the capacity of its workers."""
