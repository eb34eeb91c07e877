"""The control plane: the only system of record for DAGs, events, tasks and runs."""
