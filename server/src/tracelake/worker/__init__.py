"""The worker: claims tasks from control over HTTP, runs their operators and reports. It knows no database."""
