"""The worker of runtime `spark`. Entry point: `building.build_spark_worker`, which returns the `SparkWorker` of `spark_worker`.

A slot of it claims one task and runs it as an `attempts.AttemptRun`: the order (`orders`), the operator's process (`operator_processes`,
`host_process`) under a `guard`, the batches it posts (`batches`), and what was measured (`measurement`, by `measuring_process`).
"""
