"""The mistakes that are made in a valid draft, each by its name, with the error that must come of it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .dag_drafts import Draft, Raw, reads


@dataclass(frozen=True)
class Expected:
    code: str
    place: str
    line_of: str | None = None  # the path whose line it is, where that is not the place


def _drop_a_key(it: Draft) -> Expected:
    at, job = it.job()
    key = it.rng.choice(["name", "activation", "runtime", "operator"])
    del job[key]
    return Expected("dag_key_missing", f"{at}.{key}", at)


def _drop_the_jobs(it: Draft) -> Expected:
    del it.dag["jobs"]
    return Expected("dag_key_missing", "jobs", "")


def _misspell_a_key(it: Draft) -> Expected:
    at, job = it.job()
    key = it.rng.choice(sorted(job))
    wrong = key[:-2] + key[-1] + key[-2] + "z"
    job[wrong] = job.pop(key)
    return Expected("dag_key_unknown", f"{at}.{wrong}")


def _invent_a_key(it: Draft) -> Expected:
    at, job = it.job("emit", "range_aggregator", "range_splitter")
    job["outputs"][0]["colour"] = "blue"
    return Expected("dag_key_unknown", f"{at}.outputs[0].colour")


def _mistype_a_value(it: Draft) -> Expected:
    at, job = it.job()
    key, value = it.rng.choice([
        ("name", 5), ("name", ["a"]), ("activation", True), ("outputs", "bronze"), ("outputs", {}), ("inputs", 1), ("config", []), ("config", "a"),
        ("max_attempts", "3"), ("max_attempts", 1.5), ("timeout_seconds", True), ("scaling", "auto"), ("source", "manual"), ("unique_key", "order_id"),
    ])
    job[key] = value
    return Expected("dag_type_wrong", f"{at}.{key}")


def _leave_a_value_out(it: Draft) -> Expected:
    at, job = it.job()
    key = it.rng.choice(sorted(job))
    job[key] = it.rng.choice([Raw(""), Raw("~"), Raw("null")])
    it.flow = False
    return Expected("dag_value_missing", f"{at}.{key}")


def _choose_an_unknown_word(it: Draft) -> Expected:
    at, job = it.job()
    key, word = it.rng.choice([("activation", "cron"), ("runtime", "flink"), ("update_strategy", "merge"), ("execution_strategy", "perupdate")])
    job[key] = word
    return Expected("dag_value_unknown", f"{at}.{key}")


def _go_out_of_bounds(it: Draft) -> Expected:
    at, job = it.job()
    key, number = it.rng.choice([("max_attempts", 0), ("max_attempts", 101), ("timeout_seconds", -5), ("timeout_seconds", 10**18), ("timeout_seconds", 10**30)])
    job[key] = number
    return Expected("dag_number_out_of_bounds", f"{at}.{key}")


def _make_a_list_too_long(it: Draft) -> Expected:
    at, job = it.job("noop")
    job["unique_key"] = [f"c{number}" for number in range(it.rng.randint(101, 200))]
    return Expected("dag_list_length", f"{at}.unique_key")


def _name_it_badly(it: Draft) -> Expected:
    name = it.rng.choice(["Sales", "1st", "a-b", "a b", "", "_a", "a" * 129, "straße", "a.b", "drop table"])
    at, job = it.job()
    where = it.rng.choice(["dag", "job", "pool", "publish"])
    if where == "dag":
        it.dag["name"] = name
        return Expected("dag_name_invalid", "name")
    if where == "publish":
        it.dag["publish"]["Upper"] = {"job": "joined", "output_index": 0}
        return Expected("dag_name_invalid", "publish.Upper")
    job |= {"name": name} if where == "job" else {"scaling": {"worker_pool": name}}
    return Expected("dag_name_invalid", f"{at}.name" if where == "job" else f"{at}.scaling.worker_pool")


def _say_nothing(it: Draft) -> Expected:
    it.dag["defaults"]["owner"] = it.rng.choice(["", "  ", "x" * 201, Raw('"a\\0b"'), Raw('"\\x07"')])
    return Expected("dag_text_invalid", "defaults.owner")


def _use_a_variable(it: Draft) -> Expected:
    text = it.rng.choice(["${landing}/a", "${x}", "${landing", "a${}"])
    at = it.add_job(config={"deep": [{"path": text}]})
    return Expected("dag_var_refused", f"{at}.config.deep[0].path")


def _leave_the_locations(it: Draft) -> Expected:
    at, job = it.job("ingest_files")
    code, path = it.rng.choice([
        ("location_path_invalid", "/etc/passwd"), ("location_path_invalid", "landing/../x"), ("location_path_invalid", "file:/x"), ("location_path_invalid", "s3://landing/x"),
        ("location_path_invalid", "../x"), ("location_unknown", "landings/x"), ("location_unknown", "x"), ("location_not_allowed", "payroll"),
    ])
    job["config"]["path"] = path
    return Expected(code, f"{at}.config.path")


def _filter_wrongly(it: Draft) -> Expected:
    at, job = it.job("range_splitter", "range_aggregator")
    where, below = it.rng.choice([
        ("id > 5", ""), ({}, ""), ({"partition": "a", "cursor": {"min": 1}}, ""), ({"partitions": "a"}, ""), (["a"], ""), ({"partition": []}, ".partition"),
        ({"cursor": {}}, ".cursor"), ({"cursor": 5}, ".cursor"), ({"cursor": {"max": 1}}, ".cursor"), ({"cursor": {"min": "today"}}, ".cursor"),
        ({"cursor": {"min": 1, "below": "2024-01-10T00:00:00Z"}}, ".cursor"), ({"cursor": {"min": 1, "below": 1}}, ".cursor"), ({"cursor": {"min": None}}, ".cursor"),
    ])
    job["inputs"][0]["where"] = where
    return Expected("dag_where_invalid", f"{at}.inputs[0].where{below}")


def _name_two_jobs_alike(it: Draft) -> Expected:
    it.dag["jobs"].append(copy.deepcopy(it.job()[1]))
    return Expected("dag_job_duplicate", f"jobs[{len(it.dag['jobs']) - 1}].name")


def _forget_the_source(it: Draft) -> Expected:
    at, job = it.job("emit")
    del job["source"]
    return Expected("dag_source_missing", f"{at}.source", at)


def _want_another_source(it: Draft) -> Expected:
    at, job = it.job("emit")
    job["source"]["kind"] = it.rng.choice(["cron", "webhook", "always_on", "Cron"])
    return Expected("dag_source_not_available", f"{at}.source.kind")


def _give_a_source_inputs(it: Draft) -> Expected:
    at, job = it.job("emit")
    job["inputs"] = [{"from": {"dataset": "raw_customers"}}]
    return Expected("dag_source_with_inputs", f"{at}.inputs")


def _give_a_reactive_job_a_source(it: Draft) -> Expected:
    at, job = it.job("noop", "range_splitter")
    job["source"] = {"kind": "manual"}
    return Expected("dag_source_on_reactive", f"{at}.source")


def _take_all_inputs_away(it: Draft) -> Expected:
    at = it.add_job(activation="reactive", source=None, inputs=it.rng.choice([None, []]))
    return Expected("dag_reactive_without_inputs", f"{at}.inputs")


def _trigger_nothing(it: Draft) -> Expected:
    at, job = it.job("noop")
    job["inputs"] = [given | {"trigger": False} for given in job["inputs"]]
    return Expected("dag_no_triggering_input", f"{at}.inputs")


def _ask_for_bulk(it: Draft) -> Expected:
    at, job = it.job()
    job |= {"execution_strategy": it.rng.choice(["Bulk", "bulk", "BULK"]), "runtime": it.rng.choice(["spark", "dispatcher", "python"])}
    return Expected("dag_bulk_refused", f"{at}.execution_strategy")


def _with_rows(it: Draft, *, runtimes: tuple[str, ...] = ("spark", "python", "lambda"), **keys: Any) -> str:
    runtime = it.rng.choice(runtimes)
    return it.add_job(runtime=runtime, operator="anything", outputs=[{"layer": "bronze"}], config={"path": "landing"}, **keys)


def _append_without_a_key(it: Draft) -> Expected:
    at = _with_rows(it, update_strategy="append")
    return Expected("dag_append_without_unique_key", f"{at}.unique_key", at)


def _have_a_useless_key(it: Draft) -> Expected:
    return Expected("dag_unique_key_unused", f"{_with_rows(it, update_strategy='replace', unique_key=['a'])}.unique_key")


def _have_a_column_twice(it: Draft) -> Expected:
    again = it.rng.choice(["a", "A"])
    return Expected("dag_unique_key_duplicate", f"{_with_rows(it, update_strategy='append', unique_key=['a', 'b', again])}.unique_key[2]")


def _name_a_column_oddly(it: Draft) -> Expected:
    name = it.rng.choice(["a b", "order.id", "", "f(a)", "a,b", "`a`", "a=b", "{a}", "x" * 256, 'say "a"', "tab\there"])
    at, job = it.job("ingest_files")
    if it.rng.random() < 0.5:
        job["unique_key"] = ["order_id", name]
        return Expected("dag_column_invalid", f"{at}.unique_key[1]")
    job["outputs"][0]["partition_by"] = {"column": name}
    return Expected("dag_column_invalid", f"{at}.outputs[0].partition_by.column")


def _cut_wrongly(it: Draft) -> Expected:
    at, job = it.job("sql", "ingest_files")
    code, below, cut = it.rng.choice([
        ("dag_partition_invalid", ".range_size", {"column": "a", "range_size": 10}), ("dag_partition_invalid", ".origin", {"column": "a", "origin": 10}),
        ("dag_partition_invalid", ".origin", {"column": "a", "cursor": "integer", "origin": 10}),
        ("dag_partition_invalid", ".range_size", {"column": "a", "cursor": "integer", "range_size": "1d"}),
        ("dag_partition_invalid", ".range_size", {"column": "a", "cursor": "integer", "range_size": 0}),
        ("dag_partition_invalid", ".range_size", {"column": "a", "cursor": "integer", "range_size": [1]}),
        ("dag_partition_invalid", ".range_size", {"column": "a", "cursor": "timestamp", "range_size": 10}),
        ("dag_partition_invalid", ".range_size", {"column": "a", "cursor": "timestamp", "range_size": "soon"}),
        ("dag_partition_invalid", ".origin", {"column": "a", "cursor": "timestamp", "range_size": "1d", "origin": 5}),
        ("dag_partition_invalid", ".origin", {"column": "a", "cursor": "timestamp", "range_size": "1d", "origin": "2024-01-10T05:00:00"}),
        ("dag_partition_invalid", ".origin", {"column": "a", "cursor": "integer", "range_size": 5, "origin": {"a": 1}}),
        ("dag_value_missing", ".range_size", {"column": "a", "cursor": "integer", "range_size": None}),
        ("dag_value_unknown", ".cursor", {"column": "a", "cursor": "text"}), ("dag_key_unknown", ".colum", {"colum": "a"}), ("dag_key_missing", ".column", {"cursor": "integer"}),
        ("dag_type_wrong", "", "country"), ("dag_type_wrong", ".column", {"column": 5}),
    ])
    job["outputs"][0]["partition_by"] = cut
    it.flow = False
    place = f"{at}.outputs[0].partition_by"
    return Expected(code, place + below, place if code == "dag_key_missing" else None)


def _cut_without_a_size(it: Draft) -> Expected:
    at, job = it.job("sql")
    job |= {"execution_strategy": "PerPartition", "outputs": [job["outputs"][0] | {"partition_by": {"column": "a", "cursor": it.rng.choice(["integer", "timestamp"])}}]}
    place = f"{at}.outputs[0].partition_by"
    return Expected("dag_partition_invalid", f"{place}.range_size", place)


def _forget_a_strategy(it: Draft) -> Expected:
    if it.rng.random() < 0.5:
        at, job = it.job("sql")
        del job["execution_strategy"]
        return Expected("dag_execution_strategy_missing", f"{at}.execution_strategy", at)
    at, job = it.job("sql", "ingest_files")
    del job["update_strategy"]
    return Expected("dag_update_strategy_missing", f"{at}.update_strategy", at)


def _run_rows_wrongly(it: Draft) -> Expected:
    """An operator of Spark, in a job that is otherwise right."""
    taken: dict[str, Any] = {"operator": "ingest_files", "config": {"path": "landing", "format": "csv"}, "outputs": [{"layer": "bronze"}]}
    sql: dict[str, Any] = {"operator": "sql", "config": {"query": "SELECT 1"}, "outputs": [{"layer": "silver"}], "execution_strategy": "PerUpdate"}
    reactive: dict[str, Any] = {"activation": "reactive", "source": None, "inputs": [reads("taken")]}
    code, place, keys = it.rng.choice([
        ("operator_activation_wrong", "activation", taken | reactive | {"execution_strategy": "PerUpdate"}),
        ("operator_activation_wrong", "activation", {"operator": "sql", "config": {"query": "SELECT 1"}, "outputs": [{"layer": "bronze"}]}),
        ("operator_outputs_wrong", "outputs", sql | reactive | {"outputs": [{"layer": "silver"}] * 2}),
        ("operator_outputs_wrong", "outputs", sql | reactive | {"outputs": []}),
        ("operator_inputs_wrong", "inputs", sql | reactive | {"inputs": [reads("ranges_0")]}),
        ("operator_inputs_wrong", "inputs", sql | reactive | {"inputs": [reads("ranges_0"), {"from": {"dataset": "numbers"}}]}),
        ("dag_gold_without_silver", "outputs[0].layer", sql | reactive | {"inputs": [reads("joined"), reads("totals")], "outputs": [{"layer": "gold"}]}),
        ("dag_layer_backwards", "inputs[1].from", sql | reactive | {"inputs": [reads("taken"), reads("summed")]}),
        ("operator_unknown", "operator", sql | reactive | {"operator": "sqll"}), ("operator_unknown", "operator", taken | {"operator": "adopt"}),
        ("dag_key_missing", "config.format", taken | {"config": {"path": "landing"}}), ("dag_key_unknown", "config.querry", sql | reactive | {"config": {"querry": "SELECT 1"}}),
        ("dag_value_unknown", "config.format", taken | {"config": {"path": "landing", "format": "xml"}}),
        ("operator_config_invalid", "config.query", sql | reactive | {"config": {"query": ""}}),
        ("operator_config_invalid", "config", taken | {"config": {"path": "landing", "format": "csv", "header": False}}),
        ("operator_config_invalid", "config.cursor_column", taken | {"config": {"path": "landing", "format": "csv", "cursor_column": "id"}}),
        ("operator_config_invalid", "config.batch_files", taken | {"config": {"path": "landing", "format": "csv", "batch_files": 5}}),
        ("dag_key_unknown", "config.columns_", taken | {"config": {"path": "landing", "format": "csv", "columns_": "a INT"}}),
    ])
    at = it.add_job(runtime="spark", update_strategy="replace", **keys)
    return Expected(code, f"{at}.{place}", f"{at}.config" if code == "dag_key_missing" else None)


def _aggregate_whole_tables(it: Draft) -> Expected:
    _, job = it.job("ingest_files")
    job["outputs"] = [{"layer": "bronze"} | it.rng.choice([{}, {"partition_by": {"column": "country"}}])]
    config = {"cursor": "integer", "range_size": 10}
    at = it.add_job(activation="reactive", source=None, inputs=[reads("taken")], operator="range_aggregator", config=config, outputs=[{"layer": "bronze"}])
    return Expected("operator_scope_mismatch", f"{at}.inputs[0].from")


def _give_events_rows(it: Draft) -> Expected:
    at, job = it.job("noop", "range_splitter", "range_aggregator")
    key, value = it.rng.choice([
        ("update_strategy", "append"), ("update_strategy", "replace"), ("unique_key", ["a"]), ("execution_strategy", "PerPartition"), ("partition_by", {"column": "a"}),
    ])
    if key == "partition_by":
        at, job = it.job("emit", "range_splitter")
        job["outputs"][0][key] = value
        return Expected("dag_field_not_applicable", f"{at}.outputs[0].{key}")
    job[key] = value
    return Expected("dag_field_not_applicable", f"{at}.{key}")


def _leave_an_output_to_nobody(it: Draft) -> Expected:
    key = it.rng.choice(["domain", "owner"])
    del it.dag["defaults"][key]
    for job in it.dag["jobs"]:
        for output in job.get("outputs", []):
            output |= {"domain": "sales", "owner": "data-eng"}
    at, job = it.job("emit", "range_splitter")
    del job["outputs"][0][key]
    return Expected(f"dag_{key}_missing", f"{at}.outputs[0].{key}", f"{at}.outputs[0]")


def _want_another_pool(it: Draft) -> Expected:
    at, job = it.job()
    job["scaling"] = {"worker_pool": it.rng.choice(["gpu", "defualt", "large"])}
    return Expected("dag_pool_unknown", f"{at}.scaling.worker_pool")


def _read_what_is_not_there(it: Draft) -> Expected:
    at, job = it.job("noop")
    code, place, given = it.rng.choice([
        ("dag_input_unknown_job", "from.job", reads("joinde")), ("dag_input_output_missing", "from.output", reads("source_0", 1)),
        ("dag_dataset_unknown", "from.dataset", {"from": {"dataset": "custmers"}}), ("dag_input_mixed", "from", {"from": {"dataset": "customers", "job": "joined"}}),
        ("dag_input_output_missing", "from.output", reads("listener", 0)),
    ])
    if given == reads("listener", 0):
        at = it.add_job(activation="reactive", source=None, inputs=[])
        job = it.dag["jobs"][-1]
    job["inputs"] = [*job["inputs"], given]
    return Expected(code, f"{at}.inputs[{len(job['inputs']) - 1}].{place}")


def _read_twice(it: Draft) -> Expected:
    at, job = it.job("noop", "range_aggregator")
    job["inputs"] = [*job["inputs"], {"from": dict(job["inputs"][0]["from"]), "trigger": False}]
    return Expected("dag_input_duplicate", f"{at}.inputs[{len(job['inputs']) - 1}].from")


def _read_what_is_ours_by_name(it: Draft) -> Expected:
    name = it.rng.choice(sorted(it.dag["publish"]))
    at = it.add_job(activation="reactive", source=None, inputs=[{"from": {"dataset": name}}])
    return Expected("dag_dataset_own", f"{at}.inputs[0].from.dataset")


def _wait_in_a_circle(it: Draft) -> Expected:
    length, first = it.rng.randint(1, 12), len(it.dag["jobs"])
    for number in range(length):
        parent = f"circle_{(number - 1) % length}"
        it.add_job(name=f"circle_{number}", activation="reactive", source=None, inputs=[reads("joined"), reads(parent)], outputs=[{"layer": "silver"}])
    return Expected("dag_cycle", f"jobs[{first}].inputs[1].from.job")


def _mix_layers_up(it: Draft) -> Expected:
    layer, dataset, code, place = it.rng.choice([
        ("gold", "raw_customers", "dag_layer_skipped", "inputs[1].from"), ("bronze", "customers", "dag_layer_backwards", "inputs[1].from"),
        ("silver", "revenue", "dag_layer_backwards", "inputs[1].from"),
    ])
    fitting = {"gold": reads("joined"), "bronze": reads("chunks_0"), "silver": reads("joined")}[layer]
    lookup = {"from": {"dataset": dataset}, "trigger": False}
    return Expected(code, f"{it.add_job(activation='reactive', source=None, inputs=[fitting, lookup], outputs=[{'layer': layer}])}.{place}")


def _start_too_high(it: Draft) -> Expected:
    if it.rng.random() < 0.5:
        return Expected("dag_layer_skipped", f"{it.add_job(outputs=[{'layer': 'silver'}])}.outputs[0].layer")
    inputs = it.rng.choice([None, [{"from": {"dataset": "revenue"}}]])
    at = it.add_job(outputs=[{"layer": "gold"}], **({"activation": "reactive", "source": None, "inputs": inputs} if inputs else {}))
    return Expected("dag_gold_without_silver", f"{at}.outputs[0].layer")


def _publish_what_is_not_there(it: Draft) -> Expected:
    published = next(iter(it.dag["publish"].values()))
    code, key, entry = it.rng.choice([
        ("dag_publish_unknown_job", ".job", {"job": "nobody", "output_index": 0}), ("dag_publish_output_missing", ".output_index", {"job": "joined", "output_index": 1}),
        ("dag_publish_output_missing", ".output_index", {"job": "listener", "output_index": 0}), ("dag_publish_twice", "", dict(published)),
    ])
    it.dag["publish"]["wrong"] = entry
    return Expected(code, f"publish.wrong{key}")


def _run_elsewhere(it: Draft) -> Expected:
    return Expected("runtime_not_available", f"{_with_rows(it, runtimes=('python', 'lambda'), update_strategy='append', unique_key=['a'])}.runtime")


def _run_an_unknown_operator(it: Draft) -> Expected:
    at, job = it.job("emit", "noop", "range_aggregator", "range_splitter")
    job["operator"] = it.rng.choice(["emitt", "sql", "range_agregator", "NOOP"])
    return Expected("operator_unknown", f"{at}.operator")


def _misuse_an_operator(it: Draft) -> Expected:
    integer = {"cursor": "integer"}
    one, two = reads("source_0"), {"from": {"dataset": "raw_customers"}}
    reactive: dict[str, Any] = {"activation": "reactive", "source": None}
    bronze = [{"layer": "bronze"}]
    it.dag["jobs"][[job["name"] for job in it.dag["jobs"]].index("source_0")]["config"] = {"cursor": "integer"}
    for job in it.dag["jobs"]:
        if job["name"] in ("ranges_0", "chunks_0"):
            job["config"] = {"cursor": "integer", "range_size" if job["name"] == "ranges_0" else "chunk_size": 10}
    code, place, keys = it.rng.choice([
        ("operator_activation_wrong", "activation", {**reactive, "inputs": [one], "operator": "emit", "config": integer, "outputs": bronze}),
        ("operator_activation_wrong", "activation", {"operator": "range_splitter", "config": integer | {"chunk_size": 1}, "outputs": bronze}),
        ("operator_inputs_wrong", "inputs", {**reactive, "inputs": [one, two], "operator": "range_splitter", "config": integer | {"chunk_size": 1}, "outputs": bronze}),
        ("operator_outputs_wrong", "outputs", {"operator": "emit", "config": integer, "outputs": bronze * 2}),
        ("operator_outputs_wrong", "outputs", {"operator": "noop", "outputs": bronze * 2}),
        ("operator_outputs_wrong", "outputs", {"operator": "emit", "config": integer}),
    ])
    at = it.add_job(**keys)
    return Expected(code, f"{at}.{place}", at if place not in it.dag["jobs"][-1] else None)


def _misconfigure(it: Draft) -> Expected:
    code, key, config = it.rng.choice([
        ("operator_config_invalid", "range_size", {"cursor": "integer", "range_size": 0}), ("operator_config_invalid", "range_size", {"cursor": "timestamp", "range_size": "soon"}),
        ("operator_config_invalid", "range_size", {"cursor": "integer", "range_size": None}), ("operator_config_invalid", "cursor", {"cursor": 5, "range_size": 10}),
        ("operator_config_invalid", "origin", {"cursor": "integer", "range_size": 5, "origin": "2024-01-10T00:00:00Z"}),
        ("dag_value_unknown", "cursor", {"cursor": "intger", "range_size": 10}), ("dag_key_missing", "range_size", {"cursor": "integer"}),
        ("dag_key_unknown", "rangesize", {"cursor": "integer", "rangesize": 10}), ("dag_key_unknown", "sql", {"cursor": "integer", "range_size": 10, "sql": "SELECT 1"}),
    ])
    inputs = [{"from": {"dataset": "raw_customers"}}]
    at = it.add_job(activation="reactive", source=None, inputs=inputs, operator="range_aggregator", config=config, outputs=[{"layer": "bronze"}])
    return Expected(code, f"{at}.config.{key}")


def _confuse_cursors_and_ranges(it: Draft) -> Expected:
    at, job = it.job("range_splitter", "range_aggregator")
    chain = job["name"].rpartition("_")[2]
    if job["operator"] == "range_splitter":
        job["inputs"] = [reads(f"source_{chain}")]
    else:  # one more aggregator, behind the chunks: in its own place it would read itself
        at = it.add_job(**job | {"name": "again", "inputs": [reads(f"{it.rng.choice(['ranges', 'chunks'])}_{chain}")], "source": None})
    return Expected("operator_scope_mismatch", f"{at}.inputs[0].from")


def _confuse_numbers_and_times(it: Draft) -> Expected:
    _, job = it.job("emit")
    job["config"]["cursor"] = "integer" if job["config"]["cursor"] == "timestamp" else "timestamp"
    number = next(number for number, other in enumerate(it.dag["jobs"]) if other["name"] == job["name"].replace("source", "ranges"))
    return Expected("operator_cursor_mismatch", f"jobs[{number}].config.cursor")


def _be_clever_in_yaml(it: Draft) -> Expected:
    at, job = it.job()
    it.flow = False
    code, key, raw = it.rng.choice([
        ("dag_alias_refused", "name", "&a joined"), ("dag_alias_refused", "operator", "*a"), ("dag_tag_refused", "runtime", "!!str spark"), ("dag_tag_refused", "name", "!x y"),
        ("dag_tag_refused", "config", "!!set {a, b}"), ("dag_scalar_ambiguous", "name", "on"), ("dag_scalar_ambiguous", "name", "2024-01-10"),
        ("dag_scalar_ambiguous", "max_attempts", "0x3"), ("dag_scalar_ambiguous", "timeout_seconds", "1_000"), ("dag_scalar_ambiguous", "timeout_seconds", "1:30"),
        ("dag_scalar_ambiguous", "timeout_seconds", "1e3"), ("dag_scalar_ambiguous", "operator", ".nan"), ("dag_scalar_ambiguous", "max_attempts", "03"),
    ])
    job[key] = Raw(raw)
    return Expected(code, f"{at}.{key}")


def _write_strange_keys(it: Draft) -> Expected:
    at, job = it.job()
    it.flow = False
    code, key, below = it.rng.choice([
        ("dag_merge_refused", "<<", ""), ("dag_key_not_text", "5", ""), ("dag_key_not_text", "true", ""), ("dag_key_not_text", "~", ""), ("dag_key_not_text", "[a, b]", ""),
        ("dag_scalar_ambiguous", "no", ""), ("dag_key_duplicate", "name", ".name"), ("dag_key_duplicate", "operator", ".operator"),
    ])
    job[Raw(key)] = "whatever"
    return Expected(code, f"{at}{below}", f"{at}.{key}")


def _nest_deeply(it: Draft) -> Expected:
    depth = it.rng.randint(18, 500)
    at = it.add_job(config={"a": Raw("[" * depth + "]" * depth)})
    return Expected("dag_too_deep", f"{at}.config.a" + "[0]" * 17, f"{at}.config.a")


def _break_the_text(it: Draft) -> Expected:
    it.flow = False
    at, job = it.job()
    job["operator"] = Raw(it.rng.choice(["a: b: c", "@noop", "[a, b]]", "`noop`", "%noop", '"a" b']))
    return Expected("dag_yaml_invalid", "file", f"{at}.operator")


def _add_a_document(it: Draft) -> Expected:
    it.dag["end"] = Raw("1")  # on the last line, which becomes the start of a second document
    it.flow = False
    it.rewrite = lambda text: text.rstrip("\n").removesuffix("end: 1") + "---\nname: second\n"
    return Expected("dag_many_documents", "file", "end")


def _write_too_much(it: Draft) -> Expected:
    it.rewrite = it.rng.choice([lambda text: text + "# x" + "x" * 1024 * 1024, lambda text: text + "# " + "ü" * 600_000])
    return Expected("dag_too_large", "file", "")


def _write_nothing(it: Draft) -> Expected:
    it.rewrite = lambda text: it.rng.choice(["", "\n\n", "# nothing\n", " "])
    return Expected("dag_empty", "file", "")


MISTAKES: dict[str, Callable[[Draft], Expected]] = {
    name.strip("_"): mistake for name, mistake in list(globals().items()) if getattr(mistake, "__annotations__", {}).get("return") is Expected
}
