-- Events, runs, decisions and versions have places that a restore keeps in order.
ALTER TABLE dataset_event ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
ALTER TABLE run_history ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
ALTER TABLE quality_rule ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
ALTER TABLE policy_rule ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
ALTER TABLE promotion_status ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
ALTER TABLE quality_result ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
ALTER TABLE policy_result ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
ALTER TABLE data_version ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
SELECT begin_epoch() WHERE in_epoch(pg_snapshot_xmax(pg_current_snapshot())) <= ANY (ARRAY(
    SELECT max(xid) FROM run_history UNION ALL SELECT max(xid) FROM promotion_status UNION ALL SELECT xid FROM emission
));
