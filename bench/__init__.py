"""The benchmark that ships: ours, the limit and the peers, interleaved on one Postgres, as ratios of one run."""
