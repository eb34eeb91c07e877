"""Deploys: a DAG file is parsed, checked and made the active version of its DAG."""
