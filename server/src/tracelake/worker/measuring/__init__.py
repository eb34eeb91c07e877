"""Measuring: what the files of an attempt really contain, found by trusted code that never loads code of an operator.

Entry point: `process.run`, the program `python -m tracelake.worker.measuring`; `contract` has its orders and results, `measure.measure`
does the work. The worker starts and calls it in `spark.measuring_process`.
"""
