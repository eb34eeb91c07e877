"""Measuring: what is really in the files that an attempt staged, found by trusted code that never loads an operator's.

Entry point: `process.run`, the program `python -m tracelake.worker.measuring`; `contract` is what it is asked and answers, `measure.measure`
the work. The worker starts it and asks it from `spark.measuring_process`.
"""
