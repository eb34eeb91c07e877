"""Every reason to refuse a DAG file, each with its own code; all of them name the path, the line and the remedy."""

from typing import Self

from tracelake_sdk.errors.base import TracelakeError


class DagInvalid(TracelakeError, code="dag_invalid", status=422):
    """The DAG file is refused; the detail says where and what to do."""

    @classmethod
    def at(cls, place: str, line: int, what: str, remedy: str) -> Self:
        """The error at one position of a file; `place` is a path such as `jobs[1].inputs[0].from.job`."""
        sentence = remedy if remedy.endswith("?") else f"{remedy}."
        return cls(f"line {line}, {place}: {what}{'' if what.endswith('?') else '.'} {sentence}", place=place, line=line, remedy=sentence)


# The text
class DagTooLarge(DagInvalid, code="dag_too_large", status=422):
    """The file is larger than a DAG file may be; split it into several DAGs."""


class DagEmpty(DagInvalid, code="dag_empty", status=422):
    """The file contains no DAG; write at least `name` and `jobs`."""


class DagYamlInvalid(DagInvalid, code="dag_yaml_invalid", status=422):
    """The file is not valid YAML; fix it at the line that the detail names."""


class DagManyDocuments(DagInvalid, code="dag_many_documents", status=422):
    """The file contains several YAML documents; keep one DAG per file."""


class DagTooDeep(DagInvalid, code="dag_too_deep", status=422):
    """The file is nested deeper than is accepted; flatten it."""


class DagAliasRefused(DagInvalid, code="dag_alias_refused", status=422):
    """Anchors and aliases (`&x`, `*x`) are not accepted; write the value out."""


class DagMergeRefused(DagInvalid, code="dag_merge_refused", status=422):
    """Merge keys (`<<`) are not accepted; write the keys out, or use `defaults`."""


class DagTagRefused(DagInvalid, code="dag_tag_refused", status=422):
    """Tags (`!x`, `!!x`) are not accepted; write a plain value."""


class DagScalarAmbiguous(DagInvalid, code="dag_scalar_ambiguous", status=422):
    """YAML readers interpret this word differently; quote it if it is text."""


class DagTextInvalid(DagInvalid, code="dag_text_invalid", status=422):
    """The text is empty, too long or contains characters that cannot be stored; change it."""


# Keys and values
class DagKeyUnknown(DagInvalid, code="dag_key_unknown", status=422):
    """The key is not valid here; use one of those that the detail names."""


class DagKeyMissing(DagInvalid, code="dag_key_missing", status=422):
    """A key that is needed here is missing; add it."""


class DagKeyDuplicate(DagInvalid, code="dag_key_duplicate", status=422):
    """The key occurs twice; keep one."""


class DagKeyNotText(DagInvalid, code="dag_key_not_text", status=422):
    """A key is not text; quote it."""


class DagValueMissing(DagInvalid, code="dag_value_missing", status=422):
    """The key has no value; give it one or remove the key."""


class DagTypeWrong(DagInvalid, code="dag_type_wrong", status=422):
    """The value has the wrong type; the detail names the expected one."""


class DagValueUnknown(DagInvalid, code="dag_value_unknown", status=422):
    """The value is not valid here; use one of those that the detail names."""


class DagNumberOutOfBounds(DagInvalid, code="dag_number_out_of_bounds", status=422):
    """The number is smaller or larger than is accepted here; the detail names the bounds."""


class DagListLength(DagInvalid, code="dag_list_length", status=422):
    """The list has too few or too many items; the detail says how many it takes."""


class DagNameInvalid(DagInvalid, code="dag_name_invalid", status=422):
    """A name is a lowercase letter, then up to 127 lowercase letters, digits and underscores; rename it."""


class DagVarRefused(DagInvalid, code="dag_var_refused", status=422):
    """Variables (`${…}`) are not supported; write the value, or for files a location path such as `landing/orders`."""


class DagWhereInvalid(DagInvalid, code="dag_where_invalid", status=422):
    """`where` names either partitions or the bounds of a cursor; write `{partition: x}` or `{cursor: {min: 0, below: 100}}`."""


class DagColumnInvalid(DagInvalid, code="dag_column_invalid", status=422):
    """The column name is not valid in a table or a key; rename the column."""


class DagPartitionInvalid(DagInvalid, code="dag_partition_invalid", status=422):
    """`partition_by` names a column and, for ranges of a cursor, a matching `cursor`, `range_size` and `origin`; the detail says what does not match."""


# Jobs by themselves
class DagJobDuplicate(DagInvalid, code="dag_job_duplicate", status=422):
    """Two jobs have the same name; rename one."""


class DagSourceMissing(DagInvalid, code="dag_source_missing", status=422):
    """A job with `activation: source` needs a source; add `source: {kind: manual}`."""


class DagSourceNotAvailable(DagInvalid, code="dag_source_not_available", status=422):
    """This release does not run sources of this kind; use `source: {kind: manual}`."""


class DagSourceWithInputs(DagInvalid, code="dag_source_with_inputs", status=422):
    """A job with `activation: source` reads no datasets; remove its inputs or make it reactive."""


class DagSourceOnReactive(DagInvalid, code="dag_source_on_reactive", status=422):
    """A reactive job is started by its inputs and has no source; remove `source` or set `activation: source`."""


class DagReactiveWithoutInputs(DagInvalid, code="dag_reactive_without_inputs", status=422):
    """A reactive job without inputs would never run; give it inputs or make it a source."""


class DagNoTriggeringInput(DagInvalid, code="dag_no_triggering_input", status=422):
    """None of the job's inputs triggers it, so it would never run; remove `trigger: false` from at least one."""


class DagBulkRefused(DagInvalid, code="dag_bulk_refused", status=422):
    """Every event makes its own task, so `Bulk` is not supported; use PerUpdate or PerPartition."""


class DagUpdateStrategyMissing(DagInvalid, code="dag_update_strategy_missing", status=422):
    """A job that writes rows needs to say what happens to existing rows; add `update_strategy: append` or `update_strategy: replace`."""


class DagExecutionStrategyMissing(DagInvalid, code="dag_execution_strategy_missing", status=422):
    """A reactive job that writes rows needs to map the event's scope to the output; add `execution_strategy`."""


class DagAppendWithoutUniqueKey(DagInvalid, code="dag_append_without_unique_key", status=422):
    """Appended rows are deduplicated by their key; add `unique_key`."""


class DagUniqueKeyUnused(DagInvalid, code="dag_unique_key_unused", status=422):
    """Only `update_strategy: append` uses a unique key; remove `unique_key` or append."""


class DagUniqueKeyDuplicate(DagInvalid, code="dag_unique_key_duplicate", status=422):
    """A column occurs twice in the unique key; remove one."""


class DagFieldNotApplicable(DagInvalid, code="dag_field_not_applicable", status=422):
    """The field does not apply to this job; remove it."""


class DagDomainMissing(DagInvalid, code="dag_domain_missing", status=422):
    """Every output has a domain; add it to the output or to `defaults`."""


class DagOwnerMissing(DagInvalid, code="dag_owner_missing", status=422):
    """Every output has an owner; add it to the output or to `defaults`."""


class DagPoolUnknown(DagInvalid, code="dag_pool_unknown", status=422):
    """The worker pool was not found; use one of those that the detail names."""


# Jobs together
class DagInputUnknownJob(DagInvalid, code="dag_input_unknown_job", status=422):
    """The input names a job that the DAG does not have; correct its name."""


class DagInputOutputMissing(DagInvalid, code="dag_input_output_missing", status=422):
    """The input names an output that its job does not have; outputs are counted from 0."""


class DagInputDuplicate(DagInvalid, code="dag_input_duplicate", status=422):
    """The job reads the same dataset twice, but one event makes one task; keep one of the inputs."""


class DagInputMixed(DagInvalid, code="dag_input_mixed", status=422):
    """An input reads either a job's output or a dataset, not both; keep one of them."""


class InputNotReadable(DagInvalid, code="input_not_readable", status=422):
    """The user or service that activates a DAG needs permission to read its inputs from other DAGs; ask an admin for a role that reads the dataset."""


class DagDatasetUnknown(DagInvalid, code="dag_dataset_unknown", status=422):
    """No published dataset with this name can be read; check it with `tracelake status`."""


class DagDatasetOwn(DagInvalid, code="dag_dataset_own", status=422):
    """The DAG itself publishes this dataset; read it with `from: {job: …, output: …}`."""


class DagCycle(DagInvalid, code="dag_cycle", status=422):
    """The jobs form a cycle; remove one of the inputs that the detail names."""


class DagLayerSkipped(DagInvalid, code="dag_layer_skipped", status=422):
    """Data moves up one layer at a time: silver reads bronze or silver, gold reads silver or gold; add a job of the layer between."""


class DagLayerBackwards(DagInvalid, code="dag_layer_backwards", status=422):
    """A layer does not read the ones above it; raise the output's layer or read a lower one."""


class DagGoldWithoutSilver(DagInvalid, code="dag_gold_without_silver", status=422):
    """A gold output has at least one silver parent; add a silver input."""


class DagPublishUnknownJob(DagInvalid, code="dag_publish_unknown_job", status=422):
    """`publish` names a job that the DAG does not have; correct its name."""


class DagPublishOutputMissing(DagInvalid, code="dag_publish_output_missing", status=422):
    """`publish` names an output that its job does not have; outputs are counted from 0."""


class DagPublishTwice(DagInvalid, code="dag_publish_twice", status=422):
    """A dataset has one name, and this output has two; keep one."""


# What this release runs
class RuntimeNotAvailable(DagInvalid, code="runtime_not_available", status=422):
    """This release does not run operators of this runtime; use `runtime: spark` or `runtime: dispatcher`."""


class OperatorUnknown(DagInvalid, code="operator_unknown", status=422):
    """The operator was not found in this runtime; use one of those that the detail names."""


class OperatorActivationWrong(DagInvalid, code="operator_activation_wrong", status=422):
    """The operator does not support this activation; the detail says which it supports."""


class OperatorInputsWrong(DagInvalid, code="operator_inputs_wrong", status=422):
    """The operator expects another number or kind of inputs; the detail says which."""


class OperatorOutputsWrong(DagInvalid, code="operator_outputs_wrong", status=422):
    """The operator expects another number of outputs; the detail says how many."""


class OperatorConfigInvalid(DagInvalid, code="operator_config_invalid", status=422):
    """A value of the operator's config is not valid; the detail says what is expected."""


class LocationPathInvalid(DagInvalid, code="location_path_invalid", status=422):
    """Files are read below a location; write its name and a path below it, such as `landing/orders`, without `..`."""


class LocationUnknown(DagInvalid, code="location_unknown", status=422):
    """The org has no location of this name; correct the name, or ask an admin to add it with `tracelake admin location add`."""


class LocationNotAllowed(DagInvalid, code="location_not_allowed", status=422):
    """The user or service that activates a DAG needs permission to use its locations; ask an admin to grant the location to one of your roles."""


class OperatorScopeMismatch(DagInvalid, code="operator_scope_mismatch", status=422):
    """The operator works on cursors, or on ranges, and its input emits the other; add a job in between that converts them."""


class OperatorCursorMismatch(DagInvalid, code="operator_cursor_mismatch", status=422):
    """The input emits cursors of another type; give both the same `cursor`."""
