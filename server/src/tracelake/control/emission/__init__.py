"""Emission: the platform's own facts as metadata records, one record for each run, decision and result of the gate."""
