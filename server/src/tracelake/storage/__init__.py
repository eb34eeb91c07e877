"""Where tables live: one small contract over local files and S3-compatible stores, known to control and worker alike."""
