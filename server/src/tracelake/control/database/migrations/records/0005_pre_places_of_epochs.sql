-- Records and messages have places that a restore keeps in order.
ALTER TABLE metadata_record ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
ALTER TABLE bus_message ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
SELECT begin_epoch() WHERE in_epoch(pg_snapshot_xmax(pg_current_snapshot())) <= ANY (ARRAY(
    SELECT last.xid FROM org CROSS JOIN LATERAL (SELECT xid FROM metadata_record WHERE org_id = org.id ORDER BY xid DESC LIMIT 1) AS last
    UNION ALL SELECT last_xid FROM cold_file
    UNION ALL SELECT xid FROM bus_offset
    UNION ALL SELECT xid FROM bus_message
));
