"""Worker pools: where a job's tasks wait for workers. Every runtime has one, `default`, as large as its workers' room."""
