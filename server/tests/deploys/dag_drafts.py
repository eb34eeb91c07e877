"""Valid DAGs, drafted at random, and a writer that knows the line of everything it writes."""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class Raw:
    """Text that goes into the file as it is, as a value or as a key."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


@dataclass
class Draft:
    dag: dict[Any, Any]
    rng: random.Random
    flow: bool = True                                # some parts on one line, as {a: b}
    rewrite: Callable[[str], str] = field(default=lambda text: text)

    def job(self, *operators: str) -> tuple[str, dict[str, Any]]:
        """A job that runs one of these operators, any by default, and its path."""
        fitting = [index for index, job in enumerate(self.dag["jobs"]) if not operators or job["operator"] in operators]
        index = self.rng.choice(fitting)
        return f"jobs[{index}]", self.dag["jobs"][index]

    def add_job(self, **keys: Any) -> str:
        """One more job at the end, a manual source unless said otherwise; its path."""
        job = {"name": "one_more", "activation": "source", "source": {"kind": "manual"}, "runtime": "dispatcher", "operator": "noop"} | keys
        self.dag["jobs"].append({key: value for key, value in job.items() if value is not None})
        return f"jobs[{len(self.dag['jobs']) - 1}]"


def reads(job: str, output: int = 0) -> dict[str, Any]:
    return {"from": {"job": job, "output": output}}


def draft(rng: random.Random) -> Draft:
    """Sources, each with its ranges and chunks, joined into silver and gold, and somebody who listens at the end."""
    jobs: list[dict[str, Any]] = []
    owned = {"domain": "sales", "owner": "data-eng"}

    def add(name: str, operator: str, inputs: list[dict[str, Any]], layer: str | None, config: dict[str, Any] | None = None) -> None:
        job: dict[str, Any] = {"name": name, "activation": "reactive" if inputs else "source", "runtime": "dispatcher", "operator": operator}
        job |= {"inputs": inputs} if inputs else {"source": {"kind": "manual"}}
        job |= {"config": config} if config else {}
        job |= {"outputs": [{"layer": layer, "description": f"What {name} tells: all of it"} | (owned if rng.random() < 0.3 else {})]} if layer else {}
        job |= {"max_attempts": rng.randint(1, 9)} if rng.random() < 0.3 else {}
        job |= {"scaling": {"worker_pool": "default", "max_concurrency": rng.randint(1, 9), "mode": "auto"}} if rng.random() < 0.3 else {}
        jobs.append(job)

    chains = rng.randint(1, 3)
    for chain in range(chains):
        cursor, size, chunk = rng.choice([("integer", 1000, 100), ("timestamp", "1d", "15m")])
        add(f"source_{chain}", "emit", [], "bronze", {"cursor": cursor})
        add(f"ranges_{chain}", "range_aggregator", [reads(f"source_{chain}")], "bronze", {"cursor": cursor, "range_size": size})
        add(f"chunks_{chain}", "range_splitter", [reads(f"ranges_{chain}")], "bronze", {"cursor": cursor, "chunk_size": chunk})
    lookup = {"from": {"dataset": "customers"}, "trigger": False}
    add("joined", "noop", [*(reads(f"chunks_{chain}") for chain in range(chains)), lookup], "silver")
    add("summed", "noop", [reads("joined") | {"where": {"partition": ["de", "fr"]}}], "gold")
    add("listener", "noop", [reads("summed"), reads("joined")], None)
    jobs.extend(_with_rows(rng))
    rng.shuffle(jobs)
    names = rng.sample([job["name"] for job in jobs if "outputs" in job], k=2)
    publish = {f"all_{name}": {"job": name, "output_index": 0} for name in names}
    dag = {"name": "sales", "defaults": owned | {"max_attempts": 3}, "jobs": jobs, "publish": publish}
    return Draft(shuffled(dag, rng), rng)


def _with_rows(rng: random.Random) -> list[dict[str, Any]]:
    """Files taken in, cleaned and summed: rows in every layer, cut in one way or another."""
    spark = {"runtime": "spark"}
    reactive = {"activation": "reactive", "operator": "sql", **spark}
    ingest: dict[str, Any] = {
        "name": "taken", "activation": "source", "source": {"kind": "manual"}, "operator": "ingest_files", **spark, "outputs": [{"layer": "bronze", **_cut(rng, sized=False)}],
        "config": {"path": "landing/orders", "format": "csv", "cursor_column": "order_id"}, "update_strategy": "append", "unique_key": ["order_id", "line"],
    }
    clean: dict[str, Any] = {
        "name": "cleaned", **reactive, "inputs": [reads("taken"), {"from": {"dataset": "customers"}, "trigger": False}], "execution_strategy": "PerPartition",
        "config": {"query": "SELECT * FROM input_0 JOIN customers USING (customer_id)"}, "outputs": [{"layer": "silver", **_cut(rng, sized=True)}], "update_strategy": "replace",
    }
    total: dict[str, Any] = {
        "name": "totals", **reactive, "inputs": [reads("cleaned"), reads("ranges_0")], "execution_strategy": "PerUpdate", "config": {"query": "SELECT 'landing' AS place"},
        "outputs": [{"layer": "gold", **_cut(rng, sized=False)}], "update_strategy": "replace",
    }
    return [ingest, clean, total]


def _cut(rng: random.Random, *, sized: bool) -> dict[str, Any]:
    """A `partition_by`, or none; `sized`: one that PerPartition can work with."""
    numbers, times = {"column": "order_id", "cursor": "integer"}, {"column": "at", "cursor": "timestamp"}
    cuts = [None, {"column": "country"}, numbers | {"range_size": 1000}, times | {"range_size": "1d", "origin": "2024-01-01T06:00:00Z"}, numbers | {"range_size": 7, "origin": -3}]
    cut = rng.choice(cuts if sized else [*cuts, numbers, times])
    return {"partition_by": cut} if cut else {}


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key], rng) for key in rng.sample(list(value), k=len(value))}
    return [shuffled(item, rng) for item in value] if isinstance(value, list) else value


class Writer:
    """Writes a draft as YAML, with comments in between, and notes the line of every path."""

    def __init__(self, rng: random.Random, *, flow: bool) -> None:
        self.rng, self.flow = rng, flow
        self.lines: list[str] = []
        self.places: dict[str, int] = {}

    def write(self, value: Any, path: str = "", indent: str = "", first: str | None = None) -> None:
        """A mapping or a list in block style; `first` is what its first line starts with."""
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for number, (key, child) in enumerate(pairs):
            if first is None and self.rng.random() < 0.15:
                self.lines.extend(self.rng.choice([[""], [f"{indent}# a remark: with a colon"], ["", "# another", ""]]))
            start = first if first is not None and number == 0 else indent
            below = f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}" if path else str(key)
            self.places[below] = len(self.lines) + 1
            self.places.setdefault(path, len(self.lines) + 1)
            nested = isinstance(child, dict | list) and len(child) > 0
            if nested and not (self.flow and len(below) > 8 and self.rng.random() < 0.5):
                if isinstance(value, list):
                    self.write(child, below, f"{indent}  ", f"{start}- ")
                else:
                    self.lines.append(f"{start}{key}:")
                    self.write(child, below, f"{indent}  ")
            else:
                self._note(child, below)
                self.lines.append(f"{start}- {_flow(child)}" if isinstance(value, list) else f"{start}{key}: {_flow(child)}")

    def _note(self, value: Any, path: str) -> None:
        """Everything below stands on this line."""
        self.places[path] = len(self.lines) + 1
        for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
            self._note(child, f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}")


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and re.fullmatch(r"[a-z_]{3,}", value) and value not in ("off", "yes", "true", "false", "null"):
        return value
    return str(value) if isinstance(value, Raw) else json.dumps(value)
