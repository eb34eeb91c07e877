"""The worker: claims tasks from control over HTTP, runs their operators and reports. It has no database.

Entry point: `process.run`. It builds one worker for each runtime, `dispatcher.dispatcher_worker` and `spark.spark_worker`, and both claim and
report through the modules of this folder: `leases` renews what they hold, `retry_until_answered` repeats what control did not answer.
`measuring` is a separate program.
"""
