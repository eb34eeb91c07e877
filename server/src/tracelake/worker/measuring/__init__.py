"""Measuring: what is really in the files that an attempt staged, found by trusted code that never loads an operator's."""
