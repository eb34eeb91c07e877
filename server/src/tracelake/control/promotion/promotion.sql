-- name: find_dataset
SELECT dataset.id, name.name, dataset.layer, dataset.has_files
FROM dataset
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
WHERE dataset.org_id = %(org)s AND (dataset.id = %(id)s::uuid OR name.name = %(name)s)

-- name: columns_now
-- Of the newest version; no row without a version.
SELECT field ->> 'name' AS name
FROM (SELECT table_schema FROM data_version WHERE dataset_id = %(dataset)s ORDER BY version DESC LIMIT 1) AS newest
CROSS JOIN LATERAL jsonb_array_elements(newest.table_schema -> 'fields') AS field

-- name: lock_definition
-- A separate statement: a later one reads what it protects.
SELECT pg_advisory_xact_lock(hashtextextended('definition ' || %(id)s::text, 0))

-- name: append_rule
INSERT INTO quality_rule (id, revision, org_id, dataset_id, rule_type, rule_expression, tree, severity, scope, active, actor)
VALUES (%(id)s, %(revision)s, %(org)s, %(dataset)s, %(type)s, %(expression)s, %(tree)s::jsonb, %(severity)s::severity, %(scope)s::rule_scope, %(active)s,
        %(actor)s)

-- name: rule
SELECT rule.id, rule.revision, rule.dataset_id, name.name AS dataset_name, dataset.layer, rule.rule_type, rule.rule_expression, rule.tree, rule.severity,
       rule.scope, rule.active, rule.actor, rule.at
FROM quality_rule AS rule
JOIN dataset ON dataset.id = rule.dataset_id
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
WHERE rule.org_id = %(org)s AND rule.id = %(id)s
ORDER BY rule.revision DESC LIMIT 1

-- name: rules
SELECT * FROM (
    SELECT DISTINCT ON (rule.id) rule.id, rule.revision, rule.dataset_id, name.name AS dataset_name, dataset.layer, rule.rule_type, rule.rule_expression,
           rule.tree, rule.severity, rule.scope, rule.active, rule.actor, rule.at
    FROM quality_rule AS rule
    JOIN dataset ON dataset.id = rule.dataset_id
    LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
    WHERE rule.org_id = %(org)s AND (%(datasets)s::uuid[] IS NULL OR rule.dataset_id = ANY(%(datasets)s::uuid[]))
    ORDER BY rule.id, rule.revision DESC
) AS latest
WHERE (latest.active OR %(inactive)s) AND (%(after)s::uuid IS NULL OR latest.id > %(after)s)
ORDER BY latest.id LIMIT %(limit)s

-- name: rules_of
SELECT * FROM (
    SELECT DISTINCT ON (dataset_id, id) id, revision, dataset_id, rule_type, rule_expression, tree, severity, scope, active
    FROM quality_rule WHERE dataset_id = ANY(%(datasets)s::uuid[])
    ORDER BY dataset_id, id, revision DESC
) AS latest
WHERE active

-- name: table_rules
SELECT dataset_version_id, rule_id, revision, place, violations FROM table_rule_state WHERE dataset_version_id = ANY(%(dataset_versions)s::uuid[])

-- name: note_table_rules
INSERT INTO table_rule_state (dataset_version_id, rule_id, revision, place, violations)
SELECT * FROM unnest(%(dataset_versions)s::uuid[], %(rules)s::uuid[], %(revisions)s::integer[], %(places)s::bigint[], %(violations)s::bigint[])
ON CONFLICT (dataset_version_id, rule_id) DO UPDATE SET revision = excluded.revision, place = excluded.place, violations = excluded.violations

-- name: append_policy
INSERT INTO policy_rule (id, revision, org_id, applies_to_layer, policy_type, policy_expression, enforcement, active, actor)
VALUES (%(id)s, %(revision)s, %(org)s, %(layer)s::layer, %(type)s, %(expression)s, %(enforcement)s::enforcement, %(active)s, %(actor)s)

-- name: policy
SELECT id, revision, applies_to_layer, policy_type, policy_expression, enforcement, active, actor, at
FROM policy_rule WHERE org_id = %(org)s AND id = %(id)s
ORDER BY revision DESC LIMIT 1

-- name: policies
SELECT * FROM (
    SELECT DISTINCT ON (id) id, revision, applies_to_layer, policy_type, policy_expression, enforcement, active, actor, at
    FROM policy_rule WHERE org_id = %(org)s
    ORDER BY id, revision DESC
) AS latest
WHERE (active OR %(inactive)s) AND (%(layer)s::layer IS NULL OR applies_to_layer = %(layer)s) AND (%(after)s::uuid IS NULL OR id > %(after)s)
ORDER BY id LIMIT %(limit)s

-- name: policies_of
SELECT * FROM (
    SELECT DISTINCT ON (applies_to_layer, id) id, revision, applies_to_layer, policy_type, policy_expression, enforcement, active, actor, at
    FROM policy_rule WHERE org_id = %(org)s AND applies_to_layer = ANY(%(layers)s::layer[])
    ORDER BY applies_to_layer, id, revision DESC
) AS latest
WHERE active

-- name: has_policies
-- In any state: an org that deactivated a default keeps it inactive.
SELECT EXISTS (SELECT 1 FROM policy_rule WHERE org_id = %(org)s)

-- name: decide
INSERT INTO promotion_status (id, org_id, dataset_id, dataset_version_id, run_id, task_id, attempt, from_layer, to_layer, allowed, stage, reason, evidence,
                              evaluated_at)
SELECT new.id, new.org_id, new.dataset_id, new.dataset_version_id, new.run_id, new.task_id, new.attempt, new.from_layer, new.to_layer, new.allowed, new.stage,
       new.reason, new.evidence::jsonb, %(evaluated_at)s::timestamptz
FROM unnest(
    %(ids)s::uuid[], %(orgs)s::uuid[], %(datasets)s::uuid[], %(dataset_versions)s::uuid[], %(runs)s::text[], %(tasks)s::uuid[], %(attempts)s::integer[],
    %(from_layers)s::text[], %(to_layers)s::layer[], %(allowed)s::boolean[], %(stages)s::gate_stage[], %(reasons)s::text[], %(evidence)s::text[]
) AS new (id, org_id, dataset_id, dataset_version_id, run_id, task_id, attempt, from_layer, to_layer, allowed, stage, reason, evidence)

-- name: append_policy_results
INSERT INTO policy_result (promotion_id, number, policy_id, revision, policy_type, verdict, sentence)
SELECT * FROM unnest(
    %(promotions)s::uuid[], %(numbers)s::integer[], %(policies)s::uuid[], %(revisions)s::integer[], %(types)s::text[], %(verdicts)s::gate_verdict[],
    %(sentences)s::text[]
)

-- name: append_quality_results
INSERT INTO quality_result (promotion_id, number, rule_id, revision, rule_type, verdict, violations, examined, method, milliseconds, samples, sentence)
SELECT new.promotion_id, new.number, new.rule_id, new.revision, new.rule_type, new.verdict, new.violations, new.examined, new.method, new.milliseconds,
       new.samples::jsonb, new.sentence
FROM unnest(
    %(promotions)s::uuid[], %(numbers)s::integer[], %(rules)s::uuid[], %(revisions)s::integer[], %(types)s::text[], %(verdicts)s::gate_verdict[],
    %(violations)s::bigint[], %(examined)s::bigint[], %(methods)s::text[], %(milliseconds)s::double precision[], %(samples)s::text[], %(sentences)s::text[]
) AS new (promotion_id, number, rule_id, revision, rule_type, verdict, violations, examined, method, milliseconds, samples, sentence)

-- name: promotions
SELECT promotion.id, promotion.run_id, promotion.task_id, promotion.attempt, promotion.dataset_id, name.name AS dataset_name, promotion.from_layer,
       promotion.to_layer, promotion.allowed, promotion.stage, promotion.reason, promotion.evidence, promotion.evaluated_at, promotion.seq
FROM promotion_status AS promotion
LEFT JOIN dataset_name AS name ON name.dataset_id = promotion.dataset_id
WHERE promotion.org_id = %(org)s
  AND (%(id)s::uuid IS NULL OR promotion.id = %(id)s)
  AND (%(run)s::text IS NULL OR promotion.run_id = %(run)s)
  AND (%(datasets)s::uuid[] IS NULL OR promotion.dataset_id = ANY(%(datasets)s::uuid[]))
  AND (%(allowed)s::boolean IS NULL OR promotion.allowed = %(allowed)s)
  AND (%(before)s::bigint IS NULL OR promotion.seq < %(before)s)
ORDER BY promotion.seq DESC LIMIT %(limit)s

-- name: policy_results
SELECT promotion_id, policy_id, revision, policy_type, verdict, sentence
FROM policy_result WHERE promotion_id = ANY(%(promotions)s::uuid[]) ORDER BY promotion_id, number

-- name: quality_results
SELECT promotion_id, rule_id, revision, rule_type, verdict, violations, examined, method, milliseconds, samples, sentence
FROM quality_result WHERE promotion_id = ANY(%(promotions)s::uuid[]) ORDER BY promotion_id, number
