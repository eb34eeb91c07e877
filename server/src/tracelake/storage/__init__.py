"""Where tables are stored: one small interface over local files and S3-compatible stores, used by control and worker."""
