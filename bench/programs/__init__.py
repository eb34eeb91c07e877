"""The programs of the latency row: control and worker as they are, with a clock at the two moments that are measured."""
