"""`python -m tracelake.worker.measuring`."""

from tracelake.worker.measuring.process import run

run()
