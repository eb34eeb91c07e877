"""What a DAG file means: its canonical form, its hashes, and how the one error of a wrong file is chosen."""

import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tracelake.control.deploys.dag_file import parse_dag
from tracelake.control.deploys.dag_hashes import config_hash, lineage_hashes, spec_hash
from tracelake.control.deploys.dag_rules import ReadableDataset
from tracelake_sdk.dags import (
    Activation,
    DagSpec,
    ExecutionStrategy,
    JobOutput,
    JobSpec,
    Layer,
    NamedDataset,
    PartitionSpec,
    PublishSpec,
    SourceKind,
    UpdateStrategy,
)
from tracelake_sdk.dags.spark_operators import IngestFilesConfig
from tracelake_sdk.datasets.cursors import EPOCH, CursorType
from tracelake_sdk.errors.dags import DagInvalid

EXAMPLE = (Path(__file__).parents[3] / "examples" / "ranges" / "dag.yaml").read_text()

SMALL = """
name: orders
defaults: {domain: sales, owner: data-eng, max_attempts: 5}
jobs:
  - name: numbers
    activation: source
    source: {kind: manual}
    runtime: dispatcher
    operator: emit
    config: {cursor: integer}
    outputs: [{layer: bronze, owner: somebody}]
  - name: ranges
    activation: reactive
    inputs: [{from: {job: numbers, output: 0}, where: {cursor: {min: 0, below: 1000}}}]
    runtime: dispatcher
    operator: range_aggregator
    config: {cursor: integer, range_size: 100}
    outputs: [{layer: bronze}]
    max_attempts: 1
    scaling: {mode: auto, max_concurrency: 2}
  - name: joined
    activation: reactive
    inputs:
      - from: {job: ranges, output: 0}
        where: {partition: ["fr", "de", "fr"]}
      - {from: {dataset: customers}, trigger: false, where: {partition: de}}
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: noop
    outputs: [{layer: silver}]
publish:
  numbers: {job: numbers, output_index: 0}
"""

# With rows.
WITH_ROWS = """
name: orders
defaults: {max_attempts: 3, timeout_seconds: 1800, domain: sales, owner: data-eng}
jobs:
  - name: ingest_orders
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: landing/orders, format: csv, cursor_column: order_id}
    outputs: [{layer: bronze, description: Orders as they arrived}]
    update_strategy: append
    unique_key: [order_id]
  - name: clean_orders
    activation: reactive
    inputs: [{from: {job: ingest_orders, output: 0}}, {from: {dataset: customers}, trigger: false}]
    execution_strategy: PerPartition
    runtime: spark
    operator: sql
    config: {query: "SELECT 1"}
    outputs: [{layer: silver, description: One clean row per order}]
    update_strategy: replace
    scaling: {worker_pool: default, max_concurrency: 2}
publish:
  orders_raw: {job: ingest_orders, output_index: 0}
  orders: {job: clean_orders, output_index: 0}
"""


def parsed(text: str, **context: Any) -> DagSpec:
    return parse_dag(text, **({"locations": ["landing"], "datasets": tables(customers="silver")} | context))


def tables(**layers: str) -> dict[str, ReadableDataset]:
    return {name: ReadableDataset(Layer(layer), has_files=True) for name, layer in layers.items()}


def refused(text: str, **context: Any) -> DagInvalid:
    with pytest.raises(DagInvalid) as caught:
        parsed(text, **context)
    return caught.value


def test_a_file_becomes_its_canonical_form() -> None:
    spec = parsed(SMALL)
    numbers, ranges, joined = spec.jobs
    assert spec.name == "orders"
    assert spec.publish == {"numbers": PublishSpec(job="numbers", output_index=0)}
    assert (numbers.activation, numbers.source and numbers.source.kind, numbers.inputs) == (Activation.SOURCE, SourceKind.MANUAL, ())
    assert ranges.inputs[0].reads == JobOutput(job="numbers", output=0)
    assert joined.inputs[1].reads == NamedDataset(dataset="customers")
    assert [given.trigger for given in joined.inputs] == [True, False]
    assert spec.job("ranges") is ranges
    assert DagSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.proves("T4.5")
def test_defaults_apply_to_missing_values() -> None:
    numbers, ranges, joined = parsed(SMALL).jobs
    assert [(job.max_attempts, job.timeout_seconds) for job in (numbers, ranges, joined)] == [(5, 1800), (1, 1800), (5, 1800)]
    assert [(output.layer, output.domain, output.owner) for job in (numbers, ranges) for output in job.outputs] == [
        (Layer.BRONZE, "sales", "somebody"), (Layer.BRONZE, "sales", "data-eng"),
    ]
    assert (ranges.scaling.worker_pool, ranges.scaling.max_concurrency) == ("default", 2)


def test_a_config_is_spelled_in_full() -> None:
    numbers, ranges, joined = parsed(SMALL).jobs
    assert numbers.config == {"cursor": "integer"}
    assert ranges.config == {"cursor": "integer", "range_size": 100, "origin": 0}
    assert joined.config == {}


def test_a_where_names_each_partition_once() -> None:
    joined = parsed(SMALL).jobs[2]
    assert [given.where and given.where.partition for given in joined.inputs] == [("de", "fr"), ("de",)]


@pytest.mark.proves("T9.3")
def test_the_example_is_a_chain_of_one_cursor() -> None:
    spec = parse_dag(EXAMPLE)
    assert [job.operator for job in spec.jobs] == ["emit", "range_aggregator", "range_splitter", "noop"]
    assert {job.config["cursor"] for job in spec.jobs if job.config} == {"integer"}
    assert all(job.inputs[0].reads == JobOutput(job=parent.name, output=0) for parent, job in zip(spec.jobs, spec.jobs[1:], strict=False))


def test_a_file_with_rows_becomes_its_canonical_form_with_every_default() -> None:
    taken, cleaned = parsed(WITH_ROWS).jobs
    assert (taken.config["path"], taken.config["format"], taken.config["cursor_column"]) == ("landing/orders", "csv", "order_id")
    assert taken.config.keys() == {field.alias or name for name, field in IngestFilesConfig.model_fields.items()}, "every default is spelled out"
    assert (taken.update_strategy, taken.unique_key, taken.execution_strategy) == (UpdateStrategy.APPEND, ("order_id",), None)
    assert (cleaned.update_strategy, cleaned.execution_strategy) == (UpdateStrategy.REPLACE, ExecutionStrategy.PER_PARTITION)
    assert cleaned.config == {"query": "SELECT 1"}
    assert [job.outputs[0].partition_by for job in (taken, cleaned)] == [None, None]


def _cut(text: str, partition_by: str, layer: str = "silver") -> str:
    return text.replace(f"{{layer: {layer},", f"{{layer: {layer}, partition_by: {partition_by},")


@pytest.mark.parametrize(("given", "full"), [
    ("{column: country}", PartitionSpec(column="country")),
    ("{column: order_id, cursor: integer, range_size: 1000}", PartitionSpec(column="order_id", cursor=CursorType.INTEGER, range_size=1000, origin=0)),
    ("{column: at, cursor: timestamp, range_size: 24h}", PartitionSpec(column="at", cursor=CursorType.TIMESTAMP, range_size=timedelta(days=1), origin=EPOCH)),
    ('{column: at, cursor: timestamp, range_size: 1d, origin: "1970-01-01T02:00:00+02:00"}',
     PartitionSpec(column="at", cursor=CursorType.TIMESTAMP, range_size=timedelta(days=1), origin=EPOCH)),
])
def test_an_output_is_cut_by_a_column_or_by_spans_of_it(given: str, full: PartitionSpec) -> None:
    spec = parsed(_cut(WITH_ROWS, given))
    assert spec.jobs[1].outputs[0].partition_by == full
    assert DagSpec.model_validate_json(spec.model_dump_json()) == spec


def test_spans_of_events_are_for_per_update() -> None:
    spans = _cut(WITH_ROWS, "{column: order_id, cursor: integer}")
    assert parsed(spans.replace("PerPartition", "PerUpdate")).jobs[1].outputs[0].partition_by == PartitionSpec(column="order_id", cursor=CursorType.INTEGER)
    error = refused(spans)
    assert (error.code, error.extra["place"]) == ("dag_partition_invalid", "jobs[1].outputs[0].partition_by.range_size")
    assert error.extra["remedy"] == "Add `range_size`, or write `execution_strategy: PerUpdate`."
    assert parsed(_cut(WITH_ROWS, "{column: order_id, cursor: integer}", "bronze")), "a source has no strategy that would need a size"


@pytest.mark.parametrize(("given", "what", "remedy"), [
    ("{column: a, range_size: 5}", "needs a `cursor`", "Add `cursor: integer` or `cursor: timestamp`, or remove `range_size`."),
    ("{column: a, origin: 5}", "needs a `cursor`", "Add `cursor: integer` or `cursor: timestamp`, or remove `origin`."),
    ("{column: a, cursor: integer, origin: 5}", "needs a `range_size`", "Add `range_size`, or remove `origin`."),
    ("{column: a, cursor: integer, range_size: 1d}", "a whole number of at least 1", "Write a whole number of at least 1."),
    ("{column: a, cursor: timestamp, range_size: 5}", "a size is a duration", "Write a duration such as 15m, 1h or 1d."),
    ("{column: a, cursor: timestamp, range_size: 1d, origin: 5}", "the origin is not a valid timestamp cursor", 'Write a quoted time with its zone, such as "2024-01-10T05:00:00Z".'),
    ('{column: a, cursor: integer, range_size: 5, origin: "2024-01-10T05:00:00Z"}', "the origin is not a valid integer cursor", "Write a whole number."),
])
def test_what_cuts_an_output_must_fit_together(given: str, what: str, remedy: str) -> None:
    error = refused(_cut(WITH_ROWS, given))
    assert error.code == "dag_partition_invalid"
    assert what in error.detail
    assert error.extra["remedy"] == remedy


@pytest.mark.proves("T8.2")
def test_rows_need_a_strategy_and_appended_rows_a_key() -> None:
    for gone, code in (
        ("    update_strategy: append\n", "dag_update_strategy_missing"), ("    unique_key: [order_id]\n", "dag_append_without_unique_key"),
        ("    update_strategy: replace\n", "dag_update_strategy_missing"), ("    execution_strategy: PerPartition\n", "dag_execution_strategy_missing"),
    ):
        assert refused(WITH_ROWS.replace(gone, "")).code == code
    assert refused(WITH_ROWS.replace("[order_id]", '["order id"]')).code == "dag_column_invalid"
    assert refused(WITH_ROWS.replace("[order_id]", "[order_id, ORDER_ID]")).code == "dag_unique_key_duplicate"


# Beside the rows, a job that only tells ranges: it may start a job of any layer above it, and it is no parent of rows.
def _started_by_ranges(layer: str, *, lookup: str = "customers") -> str:
    return f"""
name: orders
defaults: {{domain: sales, owner: data-eng}}
jobs:
  - {{name: numbers, activation: source, source: {{kind: manual}}, runtime: dispatcher, operator: emit, config: {{cursor: integer}}, outputs: [{{layer: bronze}}]}}
  - name: totals
    activation: reactive
    inputs: [{{from: {{job: numbers, output: 0}}}}, {{from: {{dataset: {lookup}}}, trigger: false}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: SELECT 1}}
    outputs: [{{layer: {layer}, partition_by: {{column: id, cursor: integer}}}}]
    update_strategy: replace
"""


@pytest.mark.proves("G2.2")
def test_ranges_start_rows_of_any_layer_above_and_are_no_parent_of_them() -> None:
    assert parsed(_started_by_ranges("gold"))
    assert parsed(_started_by_ranges("silver"))
    assert refused(_started_by_ranges("gold"), datasets=tables(customers="bronze")).code == "dag_layer_skipped"
    assert refused(_started_by_ranges("gold"), datasets=tables(customers="gold")).code == "dag_gold_without_silver"
    assert refused(_started_by_ranges("bronze")).code == "dag_layer_backwards"
    without = {"customers": ReadableDataset(Layer.SILVER, has_files=False)}
    assert refused(_started_by_ranges("gold"), datasets=without).code == "dag_gold_without_silver"
    error = refused(_started_by_ranges("silver"), datasets=without)
    assert (error.code, error.extra["place"]) == ("operator_inputs_wrong", "jobs[1].inputs")


def test_gold_without_rows_may_have_a_silver_parent_without_rows() -> None:
    gold = SMALL.replace("layer: silver", "layer: gold").replace("{job: ranges, output: 0}\n", "{dataset: revenue}\n")
    datasets = {name: ReadableDataset(layer, has_files=False) for name, layer in (("customers", Layer.SILVER), ("revenue", Layer.GOLD))}
    assert parsed(gold, datasets=datasets)


def test_an_aggregator_reads_tables_that_are_cut_by_its_cursor() -> None:
    behind = WITH_ROWS.replace("publish:", """  - name: ranges
    activation: reactive
    inputs: [{from: {job: ingest_orders, output: 0}}]
    runtime: dispatcher
    operator: range_aggregator
    config: {cursor: integer, range_size: 100}
    outputs: [{layer: bronze}]
publish:""")
    assert parsed(_cut(behind, "{column: order_id, cursor: integer}", "bronze"))
    assert refused(_cut(behind, "{column: at, cursor: timestamp}", "bronze")).code == "operator_cursor_mismatch"
    for cut in (behind, _cut(behind, "{column: country}", "bronze")):
        error = refused(cut)
        assert (error.code, error.extra["place"]) == ("operator_scope_mismatch", "jobs[2].inputs[0].from")
        assert error.extra["remedy"] == "Give the output of `ingest_orders` a `partition_by` with a `cursor`."


@pytest.mark.parametrize("runtime", ["python", "lambda"])
def test_the_other_runtimes_are_not_run_yet(runtime: str) -> None:
    error = refused(WITH_ROWS.replace("runtime: spark", f"runtime: {runtime}"))
    assert (error.code, error.extra["place"]) == ("runtime_not_available", "jobs[0].runtime")
    assert error.extra["remedy"] == "Use `dispatcher`, `spark`."


# Hashes


def _reordered(text: str) -> str:
    """The same DAG in flow style, with its keys and its jobs in another order."""
    rng = random.Random(7)

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in rng.sample(list(value), k=len(value))}
        return [turned(item) for item in value] if isinstance(value, list) else value

    dag = parsed(text).model_dump(mode="json", exclude_none=True)
    return json.dumps(turned(dag | {"jobs": dag["jobs"][::-1]}))


@pytest.mark.proves("T7.2")
@pytest.mark.parametrize("same", [
    lambda text: "# why\n\n" + text.replace("\n", "   # a remark\n"),
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: "---\n" + text.lstrip() + "...\n",
    _reordered,
    lambda text: text.replace("mode: auto, ", ""),
    lambda text: text.replace("mode: auto", "mode: manual"),
    lambda text: text.replace("operator: noop", "operator: noop\n    config: {}\n    max_attempts: 5\n    timeout_seconds: 1800\n    scaling: {worker_pool: default}"),
    lambda text: text.replace("range_size: 100", "range_size: 100, origin: 0"),
    lambda text: text.replace("{layer: silver}", '{layer: silver, domain: "sales", owner: data-eng, description: }').replace(", description: ", ""),
    lambda text: text.replace('["fr", "de", "fr"]', "[de, fr]"),
    lambda text: text.replace("{job: ranges, output: 0}\n", "{job: ranges, output: 0}\n        trigger: true\n"),
], ids=["comments", "line ends", "byte order mark", "document marks", "order and style", "no mode", "other mode", "defaults spelled", "origin spelled", "owner spelled",
        "partitions", "trigger spelled"])
def test_the_same_definition_has_the_same_hash(same: Callable[[str], str]) -> None:
    assert same(SMALL) != SMALL
    assert spec_hash(parsed(same(SMALL))) == spec_hash(parsed(SMALL))
    assert lineage_hashes(parsed(same(SMALL))) == lineage_hashes(parsed(SMALL))


def _changed(**changes: Any) -> DagSpec:
    """The small DAG with other values in its job `ranges`."""
    spec = parsed(SMALL)
    job = JobSpec.model_validate(spec.jobs[1].model_dump() | changes)
    return spec.model_copy(update={"jobs": (spec.jobs[0], job, spec.jobs[2])})


@pytest.mark.proves("T7.3")
@pytest.mark.parametrize("changes", [
    {"max_attempts": 2}, {"timeout_seconds": 60}, {"scaling": {"max_concurrency": 3}}, {"scaling": {"worker_pool": "large"}},
    {"outputs": [{"layer": "bronze", "domain": "sales", "owner": "others"}]}, {"outputs": [{"layer": "bronze", "domain": "sales", "owner": "data-eng", "description": "x"}]},
], ids=str)
def test_how_a_job_is_run_and_described_rebuilds_nothing(changes: dict[str, Any]) -> None:
    changed = _changed(**changes)
    assert spec_hash(changed) != spec_hash(parsed(SMALL))
    assert lineage_hashes(changed) == lineage_hashes(parsed(SMALL))


@pytest.mark.proves("T7.3")
@pytest.mark.parametrize("changes", [
    {"operator": "noop"}, {"runtime": "spark"}, {"config": {"cursor": "integer", "range_size": 200, "origin": 0}}, {"inputs": []},
    {"inputs": [{"from": {"job": "numbers", "output": 1}}]}, {"inputs": [{"from": {"job": "numbers", "output": 0}, "where": {"cursor": {"min": 1}}}]},
    {"inputs": [{"from": {"job": "numbers", "output": 0}, "trigger": False}]}, {"inputs": [{"from": {"dataset": "numbers"}}]},
    {"outputs": []}, {"outputs": [{"layer": "silver", "domain": "sales", "owner": "data-eng"}]},
    {"update_strategy": "append"}, {"unique_key": ["a"]}, {"execution_strategy": "PerPartition"},
], ids=str)
def test_what_decides_a_jobs_rows_rebuilds_it_and_its_readers(changes: dict[str, Any]) -> None:
    before, after = lineage_hashes(parsed(SMALL)), lineage_hashes(_changed(**changes))
    assert spec_hash(_changed(**changes)) != spec_hash(parsed(SMALL))
    assert config_hash(_changed(**changes).jobs[1]) != config_hash(parsed(SMALL).jobs[1])
    assert config_hash(_changed(**changes).jobs[2]) == config_hash(parsed(SMALL).jobs[2])
    assert after["ranges"] != before["ranges"]
    assert after["joined"] != before["joined"], "its readers are rebuilt too"
    assert after["numbers"] == before["numbers"], "what it reads is not"


@pytest.mark.proves("T7.3")
def test_publishing_is_part_of_the_definition_and_builds_nothing() -> None:
    renamed = parsed(SMALL.replace("numbers: {job", "all_numbers: {job"))
    assert spec_hash(renamed) != spec_hash(parsed(SMALL))
    assert lineage_hashes(renamed) == lineage_hashes(parsed(SMALL))


def test_the_order_of_key_columns_does_not_count() -> None:
    assert config_hash(_changed(unique_key=["a", "b"]).jobs[1]) == config_hash(_changed(unique_key=["b", "a"]).jobs[1])


def _rows(old: str = "", new: str = "") -> dict[str, str]:
    assert old in WITH_ROWS
    return lineage_hashes(parsed(WITH_ROWS.replace(old, new) if old else WITH_ROWS))


@pytest.mark.proves("T7.3")
@pytest.mark.parametrize(("old", "new"), [
    ("{layer: silver,", "{layer: silver, partition_by: {column: country},"),
    ("{layer: silver,", "{layer: silver, partition_by: {column: id, cursor: integer, range_size: 10},"),
    ("replace\n", "append\n    unique_key: [order_id]\n"), ("PerPartition", "PerUpdate"), ("SELECT 1", "SELECT 2"), (", trigger: false", ""),
])
def test_what_decides_rows_rebuilds_them(old: str, new: str) -> None:
    assert _rows(old, new)["clean_orders"] != _rows()["clean_orders"]
    assert _rows(old, new)["ingest_orders"] == _rows()["ingest_orders"]


@pytest.mark.parametrize(("one", "other"), [
    ("{column: id, cursor: integer, range_size: 10}", "{column: id, cursor: integer, range_size: 20}"),
    ("{column: id, cursor: integer, range_size: 10}", "{column: id, cursor: integer, range_size: 10, origin: 5}"),
    ("{column: id}", "{column: at}"), ("{column: id}", "{column: id, cursor: integer, range_size: 10}"),
])
def test_other_partitions_rebuild_the_output(one: str, other: str) -> None:
    hashes = [lineage_hashes(parsed(_cut(WITH_ROWS, cut))) for cut in (one, other)]
    assert hashes[0]["clean_orders"] != hashes[1]["clean_orders"]


@pytest.mark.proves("T7.2")
@pytest.mark.parametrize(("one", "other"), [
    ("{column: id, cursor: integer, range_size: 10}", "{origin: 0, range_size: 10, cursor: integer, column: id}"),
    ("{column: at, cursor: timestamp, range_size: 24h}", '{column: at, cursor: timestamp, range_size: 1d, origin: "1970-01-01T00:00:00Z"}'),
])
def test_the_same_cut_has_the_same_hash(one: str, other: str) -> None:
    assert spec_hash(parsed(_cut(WITH_ROWS, one))) == spec_hash(parsed(_cut(WITH_ROWS, other)))
    assert lineage_hashes(parsed(_cut(WITH_ROWS, one))) == lineage_hashes(parsed(_cut(WITH_ROWS, other)))


@pytest.mark.proves("T7.2")
def test_a_path_is_hashed_by_its_location_and_defaults_not_at_all() -> None:
    assert _rows("format: csv", "format: csv, header: true, bad_records: fail") == _rows()
    assert _rows("format: csv", "format: csv, bad_records: set_aside") != _rows()
    assert _rows("landing/orders", "landing/others") != _rows()
    config = parsed(WITH_ROWS).jobs[0].config
    later = parsed(WITH_ROWS).jobs[0].model_copy(update={"config": {key: value for key, value in config.items() if key != "batch_files"}})
    assert config_hash(later) == config_hash(parsed(WITH_ROWS).jobs[0]), "a key that a release adds changes no hash by being there"


def test_hashes_stay_what_they_are() -> None:
    """Stored hashes are compared with those of later releases: if this fails, every DAG seems changed after an upgrade."""
    spec = parsed(SMALL)
    assert spec_hash(spec) == "4895332c6db4b1a9dce57ea6acb1ec886154c9906c5acab3ee455c4a1281c601"
    assert lineage_hashes(spec)["joined"] == "2b1e5af1f80b13b6ab81cfd52af710f7da0a159779fbf1c8716c65ae1ae39f96"


# Which error, and how it reads


def test_the_first_mistake_by_line_is_reported() -> None:
    wrong = SMALL.replace("max_attempts: 1", "max_attempts: 0").replace("operator: emit", "operatr: emit").replace("publish:", "publlish:")
    assert refused(wrong).extra["place"] == "jobs[0].operatr"
    assert refused(wrong.replace("operatr", "operator")).extra["place"] == "jobs[1].max_attempts"
    assert refused(wrong.replace("operatr", "operator").replace("attempts: 0", "attempts: 1")).extra["place"] == "publlish"


def test_two_mistakes_of_one_line_are_reported_from_left_to_right() -> None:
    assert refused(SMALL.replace("cursor: {min: 0", "cursr: {min: 0").replace("job: numbers, output: 0}, ", "job: numbers, output: x}, ")).code == "dag_type_wrong"


def test_general_mistakes_come_before_what_is_not_available() -> None:
    """A job that this release cannot run is first reported for its general mistakes."""
    for wrong, code in (
        (WITH_ROWS.replace("PerPartition", "Bulk"), "dag_bulk_refused"),
        (WITH_ROWS.replace("    unique_key: [order_id]\n", ""), "dag_append_without_unique_key"),
        (WITH_ROWS.replace("layer: silver", "layer: gold"), "dag_layer_skipped"),
        (WITH_ROWS.replace("landing/orders", '"${landing}/orders"'), "dag_var_refused"),
        (WITH_ROWS.replace("job: clean_orders, output_index: 0", "job: clean_orders, output_index: 1"), "dag_publish_output_missing"),
    ):
        assert refused(wrong.replace("runtime: spark", "runtime: python")).code == code


@pytest.mark.proves("T3.12")
def test_a_path_is_below_a_location_that_the_deployer_may_use() -> None:
    assert refused(WITH_ROWS.replace("landing/orders", "landng/orders")).extra["remedy"] == "Did you mean `landing`?"
    unknown = refused(WITH_ROWS.replace("landing/orders", "orders"))
    assert (unknown.code, unknown.extra["remedy"]) == ("location_unknown", "Write the name of a location and a path below it; you may use `landing`.")
    barred = refused(WITH_ROWS, locations=[], barred_locations=["landing"])
    assert barred.code == "location_not_allowed"
    assert "tracelake admin location grant landing ROLE" in barred.extra["remedy"]
    assert "tracelake admin location add" in refused(WITH_ROWS, locations=[]).extra["remedy"]


def test_a_variable_is_refused_with_a_word_about_locations() -> None:
    error = refused(WITH_ROWS.replace("landing/orders", '"${landing}/orders"'))
    assert (error.code, error.extra["place"]) == ("dag_var_refused", "jobs[0].config.path")
    assert "`landing/orders`" in error.extra["remedy"]
    assert parsed(WITH_ROWS.replace("Orders as they arrived", '"Costs ${price}"')), "a description is text"


@pytest.mark.proves("T2.1")
@pytest.mark.parametrize("runtime", ["spark", "dispatcher"])
def test_bulk_is_refused(runtime: str) -> None:
    error = refused(WITH_ROWS.replace("PerPartition", "Bulk").replace("runtime: spark", f"runtime: {runtime}"))
    assert error.code == "dag_bulk_refused"
    assert error.extra["remedy"] == "Write PerUpdate or PerPartition."


@pytest.mark.proves("T3.11")
@pytest.mark.parametrize("change", ["operator: python", "operator: sql", "operator: noop\n    config: {query: SELECT 1}", "operator: noop\n    bundle: abc"])
def test_the_dispatcher_takes_no_code_and_no_rows(change: str) -> None:
    assert refused(SMALL.replace("operator: noop", change)).code in ("operator_unknown", "dag_key_unknown")


def test_a_detail_names_line_place_mistake_and_remedy() -> None:
    error = refused(SMALL.replace("    activation: reactive", "    activaton: reactive", 1))
    assert error.detail == "line 13, jobs[1].activaton: the key `activaton` is not valid here. Did you mean `activation`?"
    assert error.extra == {"place": "jobs[1].activaton", "line": 13, "remedy": "Did you mean `activation`?"}
    assert error.status == 422


def test_lines_are_counted_alike_with_other_line_ends() -> None:
    wrong = SMALL.replace("max_attempts: 1", "max_attempts: 0")
    assert refused(wrong.replace("\n", "\r\n")).extra["line"] == refused(wrong).extra["line"]


@pytest.mark.proves("T4.4")
def test_a_cycle_is_named_in_the_direction_of_the_data() -> None:
    wrong = SMALL.replace("activation: source\n    source: {kind: manual}", "activation: reactive\n    inputs: [{from: {job: joined, output: 0}}]")
    error = refused(wrong)
    assert error.code == "dag_cycle"
    assert "numbers → ranges → joined → numbers" in error.detail


def test_a_long_chain_is_not_a_cycle() -> None:
    jobs = [{"name": "j0", "activation": "source", "source": {"kind": "manual"}, "runtime": "dispatcher", "operator": "noop"}]
    jobs += [
        {"name": f"j{n}", "activation": "reactive", "runtime": "dispatcher", "operator": "noop", "inputs": [{"from": {"job": f"j{n - 1}", "output": 0}}]}
        for n in range(1, 1000)
    ]
    for job in jobs:
        job["outputs"] = [{"layer": "bronze", "domain": "sales", "owner": "data-eng"}]
    spec = parsed(json.dumps({"name": "chain", "jobs": jobs[::-1]}))
    assert len(lineage_hashes(spec)) == 1000


def test_only_named_datasets_and_pools_can_be_used() -> None:
    assert refused(SMALL, datasets={}).code == "dag_dataset_unknown"
    assert refused(SMALL, pools=["large"]).code == "dag_pool_unknown"
    assert parsed(SMALL, pools=["default", "large"])


@pytest.mark.parametrize(("layer", "code"), [("bronze", None), ("silver", None), ("gold", "dag_layer_backwards")])
def test_silver_reads_bronze_and_silver(layer: str, code: str | None) -> None:
    if code is None:
        assert parsed(SMALL, datasets=tables(customers=layer))
    else:
        assert refused(SMALL, datasets=tables(customers=layer)).code == code


def test_gold_reads_silver_and_gold_and_has_a_silver_parent() -> None:
    gold = SMALL.replace("layer: silver", "layer: gold").replace("{job: ranges, output: 0}\n", "{dataset: revenue}\n")
    assert parsed(gold, datasets=tables(customers="silver", revenue="gold"))
    assert refused(gold, datasets=tables(customers="gold", revenue="gold")).code == "dag_gold_without_silver"
    assert refused(gold, datasets=tables(customers="silver", revenue="bronze")).code == "dag_layer_skipped"


def test_a_value_that_may_be_a_secret_is_not_repeated() -> None:
    for secret in ("0777123", "1_000_000_7", "2024-01-10", "99999999999999999999999"):
        error = refused(WITH_ROWS.replace("format: csv", f"password: {secret}"))
        assert error.extra["place"] == "jobs[0].config.password"
        assert secret not in error.detail


@pytest.mark.parametrize("word", ["yes", "No", "on", "OFF", "2024-01-10", "010", "0x1f", "0o17", "0b1", "1_000", "12:30:45", "1e3", ".5", ".inf", "-.INF", ".NaN", "089", "="])
def test_words_that_yaml_readers_take_for_different_things_are_to_be_quoted(word: str) -> None:
    plain = refused(SMALL.replace("owner: data-eng", f"owner: {word}"))
    assert (plain.code, plain.extra["place"]) == ("dag_scalar_ambiguous", "defaults.owner")
    assert "Quote it" in plain.extra["remedy"]
    assert parsed(SMALL.replace("owner: data-eng", f'owner: "{word}"')).jobs[1].outputs[0].owner == word


@pytest.mark.parametrize("word", ["true", "False", "5", "-1", "1.5"])
def test_a_number_or_a_boolean_is_text_only_if_quoted(word: str) -> None:
    error = refused(SMALL.replace("owner: data-eng", f"owner: {word}"))
    assert error.code == "dag_type_wrong"
    assert "quote it" in error.extra["remedy"]


@pytest.mark.parametrize("word", ["y", "n", "none", "nil", "1.2.3", "12a", "v1", "a:b", "+", "e5", "1-2"])
def test_other_words_are_text(word: str) -> None:
    assert parsed(SMALL.replace("owner: data-eng", f"owner: {word}")).jobs[1].outputs[0].owner == word
