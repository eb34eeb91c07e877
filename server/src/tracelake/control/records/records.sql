-- name: number_of_kinds
-- Kinds are only added: an equal number means no change.
SELECT count(*) FROM metadata_kind WHERE org_id = %(org)s

-- name: kinds
SELECT definition::text FROM metadata_kind WHERE org_id = %(org)s ORDER BY name, version

-- name: lock_kind
SELECT pg_advisory_xact_lock(hashtextextended('kind ' || %(org)s::uuid || ' ' || %(name)s::text, 0))

-- name: add_kind
INSERT INTO metadata_kind (org_id, name, version, definition, actor) VALUES (%(org)s, %(name)s, %(version)s, %(definition)s::json, %(actor)s)

-- name: org_called
SELECT id FROM org WHERE name = %(name)s

-- name: ensure_partition
SELECT ensure_record_partition(%(class)s, %(moment)s)

-- name: take_identities
-- In ascending order, so that transactions cannot deadlock. Returns identities that already exist.
WITH given AS (
    SELECT * FROM unnest(%(identities)s::bytea[], %(contents)s::bytea[], %(ids)s::uuid[], %(classes)s::text[]) AS given(identity, content, id, class)
), taken AS (
    INSERT INTO record_identity (identity, content, record_id, retention_class) SELECT identity, content, id, class FROM given
    ON CONFLICT (identity) DO NOTHING RETURNING record_id
)
SELECT given.identity FROM given WHERE NOT EXISTS (SELECT 1 FROM taken WHERE taken.record_id = given.id)

-- name: identities
-- A separate statement: it sees what was committed while the one before waited.
SELECT identity, content, record_id FROM record_identity WHERE identity = ANY(%(identities)s::bytea[])

-- name: copy_records
COPY metadata_record (
    retention_class, id, org_id, kind, kind_version, target_key, source_id, schema_name, table_name, producer_id, produced_at, quality,
    window_start, window_end, dataset_ids, record, job_id, run_id, namespace, cluster, workspace, context, stored_at
) FROM STDIN

-- name: set_latest
-- In ascending order, after the identities, for the same reason.
INSERT INTO metadata_latest AS newest (org_id, kind, target_key, produced_at, record_id, retention_class, target, dataset_ids)
SELECT %(org)s, kind, target_key, produced_at, id, class, target::json, dataset_ids::uuid[]
FROM unnest(
    %(kinds)s::text[], %(target_keys)s::uuid[], %(produced)s::timestamptz[], %(ids)s::uuid[], %(classes)s::text[], %(targets)s::text[], %(datasets)s::text[]
) AS given(kind, target_key, produced_at, id, class, target, dataset_ids)
ON CONFLICT (org_id, kind, target_key) DO UPDATE
SET produced_at = excluded.produced_at, record_id = excluded.record_id, retention_class = excluded.retention_class,
    target = excluded.target, dataset_ids = excluded.dataset_ids
WHERE (excluded.produced_at, excluded.record_id) > (newest.produced_at, newest.record_id)

-- name: store_one
-- A single record in one statement, which is a transaction: does what take_identities, copy_records and set_latest do, in this order.
WITH taken AS (
    INSERT INTO record_identity (identity, content, record_id, retention_class)
    VALUES (%(identity)s, %(content)s, %(id)s::uuid, %(retention_class)s) ON CONFLICT (identity) DO NOTHING RETURNING record_id
), stored AS (
    INSERT INTO metadata_record (
        retention_class, id, org_id, kind, kind_version, target_key, source_id, schema_name, table_name, producer_id, produced_at, quality,
        window_start, window_end, dataset_ids, record, job_id, run_id, namespace, cluster, workspace, context, stored_at
    )
    SELECT %(retention_class)s, record_id, %(org_id)s::uuid, %(kind)s, %(kind_version)s::integer, %(target_key)s::uuid, %(source_id)s, %(schema_name)s,
           %(table_name)s, %(producer_id)s, %(produced_at)s::timestamptz, %(quality)s, %(window_start)s::timestamptz, %(window_end)s::timestamptz,
           %(dataset_ids)s::uuid[], %(record)s::json, %(job_id)s, %(run_id)s, %(namespace)s, %(cluster)s, %(workspace)s, %(context)s::json,
           %(stored_at)s::timestamptz
    FROM taken
), given AS (
    INSERT INTO metadata_latest AS newest (org_id, kind, target_key, produced_at, record_id, retention_class, target, dataset_ids)
    SELECT %(org_id)s::uuid, %(kind)s, %(target_key)s::uuid, %(produced_at)s::timestamptz, record_id, %(retention_class)s, %(target)s::json,
           %(dataset_ids)s::uuid[]
    FROM taken
    ON CONFLICT (org_id, kind, target_key) DO UPDATE
    SET produced_at = excluded.produced_at, record_id = excluded.record_id, retention_class = excluded.retention_class,
        target = excluded.target, dataset_ids = excluded.dataset_ids
    WHERE (excluded.produced_at, excluded.record_id) > (newest.produced_at, newest.record_id)
)
SELECT record_id FROM taken

-- name: latest
SELECT record.id, record.kind_version, record.stored_at, record.record::text AS record, record.context::text AS context,
       (SELECT count(*) FROM metadata_kind WHERE metadata_kind.org_id = %(org)s) AS kinds
FROM metadata_latest AS newest
-- LIMIT: forces a lookup by key, whatever the statistics of a partition were when this was planned.
CROSS JOIN LATERAL (
    SELECT * FROM metadata_record AS kept WHERE kept.retention_class = newest.retention_class AND kept.id = newest.record_id LIMIT 1
) AS record
WHERE newest.org_id = %(org)s AND newest.kind = %(kind)s AND newest.target_key = %(target_key)s
  AND (%(sees_all)s OR newest.dataset_ids IS NULL OR newest.dataset_ids <@ %(seen)s::uuid[])

-- name: of_target
-- As a range of the target index, not as equalities: a partition that was empty when this was planned would be scanned by kind.
SELECT record.id, record.kind_version, record.stored_at, record.record::text AS record, record.context::text AS context
FROM metadata_record AS record
WHERE record.org_id = %(org)s AND (record.target_key, record.kind) >= (%(target_key)s::uuid, %(kind)s::text)
  AND (record.target_key, record.kind, record.produced_at, record.id) < (%(target_key)s::uuid, %(kind)s::text, %(before)s::timestamptz, %(before_id)s::uuid)
  AND (%(sees_all)s OR record.dataset_ids IS NULL OR record.dataset_ids <@ %(seen)s::uuid[])
ORDER BY record.target_key DESC, record.kind DESC, record.produced_at DESC, record.id DESC LIMIT %(limit)s

-- name: of_run
SELECT record.id, record.kind_version, record.stored_at, record.record::text AS record, record.context::text AS context
FROM metadata_record AS record
WHERE record.org_id = %(org)s AND record.run_id = %(run_id)s
  AND (record.produced_at, record.id) < (%(before)s::timestamptz, %(before_id)s::uuid)
  AND (%(sees_all)s OR record.dataset_ids IS NULL OR record.dataset_ids <@ %(seen)s::uuid[])
ORDER BY record.produced_at DESC, record.id DESC LIMIT %(limit)s

-- name: candidates
-- All records that the filters may match, also those that match only after conversion to a newer version of their kind; kind by kind, in index order.
SELECT found.id, found.kind_version, found.stored_at, found.record::text AS record, found.context::text AS context
FROM unnest(%(kinds)s::text[], %(versions)s::integer[]) AS wanted(kind, version)
CROSS JOIN LATERAL (
    SELECT record.id, record.kind_version, record.stored_at, record.produced_at, record.record, record.context
    FROM metadata_record AS record
    WHERE record.org_id = %(org)s AND record.kind = wanted.kind
      AND (record.produced_at, record.id) < (%(before)s::timestamptz, %(before_id)s::uuid)
      AND record.produced_at >= %(produced_from)s::timestamptz AND record.produced_at < %(produced_to)s::timestamptz
      AND (%(source_id)s::text IS NULL OR record.source_id = %(source_id)s)
      AND (%(schema)s::text IS NULL OR record.schema_name = %(schema)s)
      AND (%(table)s::text IS NULL OR record.table_name = %(table)s)
      AND (%(target_key)s::uuid IS NULL OR record.target_key = %(target_key)s)
      AND (%(producer_id)s::text IS NULL OR record.producer_id = %(producer_id)s)
      AND (%(job_id)s::text IS NULL OR record.job_id = %(job_id)s)
      AND (%(namespace)s::text IS NULL OR record.namespace = %(namespace)s)
      AND (%(workspace)s::text IS NULL OR record.workspace = %(workspace)s)
      AND (%(cluster)s::text IS NULL OR record.cluster = %(cluster)s)
      AND (%(quality)s::text IS NULL OR record.quality = %(quality)s)
      AND (%(sees_all)s OR record.dataset_ids IS NULL OR record.dataset_ids <@ %(seen)s::uuid[])
      AND (
        record.kind_version < wanted.version
        OR (
            CASE
                WHEN record.window_start IS NULL AND record.window_end IS NULL
                THEN record.produced_at >= %(window_from)s::timestamptz AND record.produced_at < %(window_to)s::timestamptz
                ELSE coalesce(record.window_start < %(window_to)s::timestamptz, true) AND coalesce(record.window_end > %(window_from)s::timestamptz, true)
            END
            AND NOT EXISTS (
                SELECT 1
                FROM unnest(%(paths)s::text[], %(tests)s::text[], %(texts)s::text[], %(numbers)s::float8[]) AS condition(path, test, text, number)
                CROSS JOIN LATERAL (
                    SELECT CASE WHEN condition.path LIKE 'context.%%' THEN record.context #> string_to_array(substr(condition.path, 9), '.')
                                ELSE record.record #> string_to_array(condition.path, '.') END AS value
                ) AS there
                CROSS JOIN LATERAL (
                    SELECT there.value #>> '{}' COLLATE "C" AS text,
                           CASE WHEN json_typeof(there.value) = 'number' AND length(there.value::text) < 300 THEN (there.value #>> '{}')::float8 END AS number
                ) AS spelt
                WHERE NOT coalesce(
                    CASE condition.test
                        WHEN 'exists' THEN there.value IS NOT NULL
                        WHEN 'text_eq' THEN spelt.text = condition.text
                        WHEN 'text_in' THEN condition.text::jsonb ? spelt.text
                        WHEN 'text_le' THEN spelt.text <= condition.text
                        WHEN 'text_ge' THEN spelt.text >= condition.text
                        WHEN 'number_eq' THEN coalesce(spelt.number = condition.number, json_typeof(there.value) = 'number')
                        WHEN 'number_le' THEN coalesce(spelt.number <= condition.number, json_typeof(there.value) = 'number')
                        WHEN 'number_ge' THEN coalesce(spelt.number >= condition.number, json_typeof(there.value) = 'number')
                    END,
                    false
                )
            )
        )
      )
    ORDER BY record.produced_at DESC, record.id DESC LIMIT %(limit)s
) AS found
ORDER BY found.produced_at DESC, found.id DESC LIMIT %(limit)s

-- name: targets
-- A target whose newest record is hidden from the caller is included if an older one is visible.
SELECT coalesce(newest.target, shown.target)::text
FROM (
    SELECT latest.kind, latest.target_key,
           CASE WHEN %(sees_all)s OR latest.dataset_ids IS NULL OR latest.dataset_ids <@ %(seen)s::uuid[] THEN latest.target END AS target
    FROM metadata_latest AS latest
    WHERE latest.org_id = %(org)s AND (%(kind)s::text IS NULL OR latest.kind = %(kind)s)
) AS newest
LEFT JOIN LATERAL (
    SELECT record.record -> 'target' AS target FROM metadata_record AS record
    WHERE newest.target IS NULL AND record.org_id = %(org)s AND record.target_key = newest.target_key AND record.kind = newest.kind
      AND (record.dataset_ids IS NULL OR record.dataset_ids <@ %(seen)s::uuid[])
    ORDER BY record.produced_at DESC, record.id DESC LIMIT 1
) AS shown ON true
WHERE newest.target IS NOT NULL OR shown.target IS NOT NULL

-- name: tail_ends
-- Up to where each log can be read: open transactions can only add records after it. And the next transaction number.
SELECT org.id AS org_id, last.xid::text AS xid, last.seq, in_epoch(pg_snapshot_xmax(pg_current_snapshot()))::text AS unbegun
FROM unnest(%(orgs)s::uuid[]) AS org(id)
LEFT JOIN LATERAL (
    SELECT record.xid, record.seq FROM metadata_record AS record
    WHERE record.org_id = org.id AND record.xid < in_epoch(pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY record.xid DESC, record.seq DESC LIMIT 1
) AS last ON true

-- name: tail
SELECT record.id, record.kind_version, record.stored_at, record.record::text AS record, record.context::text AS context, record.xid::text AS xid, record.seq
FROM metadata_record AS record
WHERE record.org_id = %(org)s
  AND (record.xid, record.seq) > (%(xid)s::xid8, %(seq)s::bigint) AND (record.xid, record.seq) <= (%(last_xid)s::xid8, %(last_seq)s::bigint)
  AND (%(every_kind)s OR record.kind = ANY(%(kinds)s::text[]))
  AND (%(sees_all)s OR record.dataset_ids IS NULL OR record.dataset_ids <@ %(seen)s::uuid[])
ORDER BY record.xid, record.seq LIMIT %(limit)s
