-- What is current is moved by whoever may: the definition of a DAG by the defining role, places, events and operator state by the deciding one.
REVOKE INSERT, UPDATE (active_version_id) ON dag FROM tracelake_execute;
REVOKE INSERT ON job_key, worker_pool, line FROM tracelake_execute;
GRANT INSERT, UPDATE (active_version_id) ON dag TO tracelake_define;
GRANT INSERT ON job_key, worker_pool, line TO tracelake_define;

-- Executing keeps the order of turns, stops a line and releases one that is reserved.
REVOKE UPDATE (decided, frozen, recorded, turn_task_id, turn_attempt) ON line FROM tracelake_execute;
GRANT UPDATE (decided, frozen, recorded, turn_task_id, turn_attempt) ON line TO tracelake_decide;

-- An event is the effect of a decision.
REVOKE INSERT ON dataset_event, event_ledger FROM tracelake_execute;
GRANT INSERT ON dataset_event, event_ledger TO tracelake_decide;
REVOKE INSERT, UPDATE ON operator_state FROM tracelake_execute;
GRANT INSERT, UPDATE (revision, value) ON operator_state TO tracelake_decide;

-- Whose task it is, what triggered it and who holds its lease never change.
REVOKE UPDATE ON task, task_attempt FROM tracelake_execute;
GRANT UPDATE (pool_id, state, waits, seq, ordinal, attempt, failures, due_at, lease_expires_at, cancel_asked_at, finished_at, superseded) ON task TO tracelake_execute;
GRANT UPDATE (last_heartbeat_at, timed_out_at, ended_at, outcome, error_class, error_message, body_sha256, result, base, scopes, rebases, swept_at)
    ON task_attempt TO tracelake_execute;

REVOKE ALL ON PROCEDURE make_definition, make_decision FROM PUBLIC;
