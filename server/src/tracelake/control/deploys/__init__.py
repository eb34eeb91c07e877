"""Deploys: a DAG file is parsed, judged, and its first version activated."""
