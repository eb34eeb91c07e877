"""Tracelake's server side: the control plane, the worker and the embedded system. No JVM, no pyspark."""
