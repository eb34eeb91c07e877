"""Errors that any part of the system may raise; the docstring of each is its default message and says what to do."""

from tracelake_sdk.errors.base import TracelakeError


# What the caller sent
class Malformed(TracelakeError, code="malformed", status=400):
    """The request cannot be parsed; check it against the API's schema."""


class Invalid(TracelakeError, code="invalid", status=422):
    """The request is not valid; the detail says where."""


class TooLarge(TracelakeError, code="too_large", status=413):
    """The request is too large; send it in smaller parts."""


class BodyTooSlow(TracelakeError, code="body_too_slow", status=408):
    """The request's body did not arrive in time; send it in smaller parts or over a faster connection."""


class IdempotencyConflict(TracelakeError, code="idempotency_conflict", status=409):
    """This key was used before with other content; use a new key for a new request."""


# Who the caller is
class Unauthenticated(TracelakeError, code="unauthenticated", status=401):
    """The request has no valid token; send `Authorization: Bearer <token>`."""


class Forbidden(TracelakeError, code="forbidden", status=403):
    """The token is valid but lacks permission; ask an admin for the role that the detail names."""


class NotFound(TracelakeError, code="not_found", status=404):
    """The object was not found in this org; check the name with `tracelake status`."""


# Users, roles, tokens
class AccessConflict(TracelakeError, code="access_conflict", status=409):
    """A user with this name, or with this issuer and subject, already exists with other attributes; choose another name."""


class LocationConflict(TracelakeError, code="location_conflict", status=409):
    """A location of this name already exists with another root or other roles; change that one, or choose another name."""


class LocationRefused(TracelakeError, code="location_refused", status=422):
    """The root of a location must be an absolute folder or an S3 prefix that does not overlap the home or the lake; choose another."""


class LastAdmin(TracelakeError, code="last_admin", status=409):
    """The org would have no admin left; give another user the role first."""


class TokenShownOnce(TracelakeError, code="token_shown_once", status=409):
    """This token was created by the first request with this key, and is not shown again; if it was lost, revoke it and create another."""


# Tasks and attempts
class StaleAttempt(TracelakeError, code="stale_attempt", status=409):
    """A newer attempt of this task has started, or this fence was never issued; drop the result."""


class AttemptFinal(TracelakeError, code="attempt_final", status=409):
    """This attempt was closed before the report arrived; drop the result."""


class CompletionConflict(TracelakeError, code="completion_conflict", status=409):
    """This attempt was already completed with another body; the recorded result remains."""


class IllegalTransition(TracelakeError, code="illegal_transition", status=409):
    """A task in this state cannot do that."""


class TaskCanceled(TracelakeError, code="task_canceled", status=409):
    """The task is canceled; stop the operator and report the attempt as canceled."""


class AlreadyDecided(TracelakeError, code="already_decided", status=409):
    """The task is decided and being committed; it can no longer be stopped."""


class AlreadyFinal(TracelakeError, code="already_final", status=409):
    """The task is final; start a new run instead."""


# Events
class EventConflict(TracelakeError, code="event_conflict", status=409):
    """This event was emitted before with other content; events never change, so emit a rewrite with a new revision."""


class EventInvalid(TracelakeError, code="event_invalid", status=422):
    """The event names an output that its job does not have, or a scope that the output cannot have."""


class BatchConflict(TracelakeError, code="batch_conflict", status=409):
    """A batch of this name was posted before with other files; give a new batch a new name."""


class BatchesDiffer(TracelakeError, code="batches_differ", status=409):
    """The report does not list exactly the batches that were posted for the task; the detail names the difference."""


# DAGs and the registry
class RebuildNeeded(TracelakeError, code="rebuild_needed", status=409):
    """The definition changes the rows of the jobs that the detail names, and rebuilding them is not supported yet; deploy it under a new name."""


class NameTaken(TracelakeError, code="name_taken", status=409):
    """A dataset or snapshot with this name already exists in this org; choose another name."""


class DatasetCycle(TracelakeError, code="dataset_cycle", status=409):
    """The datasets of all DAGs of the org would form a cycle; remove one of the inputs."""


class JobNotRunnable(TracelakeError, code="job_not_runnable", status=409):
    """Only a job with `activation: source` can be started by a request; run its source instead."""


# Rules and policies
class RuleInvalid(TracelakeError, code="rule_invalid", status=422):
    """The rule's expression is not valid; the detail says where and what to write."""


class PolicyInvalid(TracelakeError, code="policy_invalid", status=422):
    """The policy is not valid; the detail lists the valid ones."""


# Queries
class QueryRefused(TracelakeError, code="query_refused", status=422):
    """A query must be one SELECT over published datasets, with functions that only compute; the detail says what to write instead."""


class QueryInvalid(TracelakeError, code="query_invalid", status=422):
    """The engine cannot run the statement; the detail says where."""


class QueryOverLimit(TracelakeError, code="query_over_limit", status=422):
    """The query needs more time, memory or disk than is allowed; select less, or split the query."""


class QueryAbandoned(TracelakeError, code="query_abandoned", status=409):
    """The client disconnected before the result was ready, so the query was stopped; run it again and keep the connection open."""


class TooManyQueries(TracelakeError, code="too_many_queries", status=429):
    """Too many queries are running or waiting; try again shortly."""


class NotReplayable(TracelakeError, code="not_replayable", status=409):
    """On the same versions this query may return different rows; the detail says why."""


class Purged(TracelakeError, code="purged", status=410):
    """The files of this version were removed; use a version that still exists."""


class PackageMissing(TracelakeError, code="package_missing", status=503):
    """This needs a package that is not installed here; the detail names it."""


# The system
class Unavailable(TracelakeError, code="unavailable", status=503):
    """The service cannot answer now; try again shortly."""


class Busy(Unavailable, code="busy", status=503):
    """The server has no memory left for request bodies; try again shortly, in smaller parts."""


class NotReady(TracelakeError, code="not_ready", status=503):
    """A process is running but not ready; `reasons` names what fails, and it becomes ready by itself."""


class LoopFailed(TracelakeError, code="loop_failed", status=500):
    """A background loop of this process keeps failing, so the process exits to be restarted; its log has the error."""


class NotRunning(TracelakeError, code="not_running", status=503):
    """No Tracelake system answers; start one with `tracelake up` or set TRACELAKE_API_URL."""


class OutcomeUnknown(TracelakeError, code="outcome_unknown", status=504):
    """The connection broke after the request was sent: it may or may not have taken effect; repeat it with the same idempotency key."""


class StorageUnavailable(TracelakeError, code="storage_unavailable", status=503):
    """The storage does not answer; check the settings of `storage` and try again."""


class StorageOutcomeUnknown(StorageUnavailable, code="storage_outcome_unknown", status=504):
    """The storage did not answer a write: the file may or may not exist; write it again."""


class SettingInvalid(TracelakeError, code="setting_invalid", status=422):
    """A setting is not valid; the detail names it and the expected value."""


class MigrationRefused(TracelakeError, code="migration_refused", status=409):
    """The database's schema does not match this program; the detail says which migration and what to do."""


class SystemBusy(TracelakeError, code="system_busy", status=409):
    """Another `tracelaked up` already runs this home; stop it first or choose another TRACELAKE_HOME."""


class StartFailed(TracelakeError, code="start_failed", status=503):
    """A part of the system did not start; the detail names its log."""


class ServerMissing(TracelakeError, code="server_missing", status=503):
    """The programs of a Tracelake system are not installed here; install the package `tracelake`."""


class JavaMissing(TracelakeError, code="java_missing", status=503):
    """No Java that Spark can use was found; install Java 17, 21 or 25, or set JAVA_HOME to one."""


class JarsMissing(TracelakeError, code="jars_missing", status=503):
    """The jars that Spark needs cannot be fetched; check the network and the Maven repository, or copy them into `spark.jars_folder`."""


class OperatorCredentialsRefused(TracelakeError, code="operator_credentials_refused", status=503):
    """The object store did not issue credentials for an operator; check `storage.operator_role` and the trust policy of the role."""


class ProjectRefused(TracelakeError, code="project_refused", status=409):
    """A project cannot be created in this folder; choose a writable folder without these files."""
