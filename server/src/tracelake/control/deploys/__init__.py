"""Deploys: a DAG file is parsed, validated and activated as the next version of its DAG."""
