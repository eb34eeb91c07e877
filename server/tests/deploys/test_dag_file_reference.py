"""The reference page of the DAG file says what the code does."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracelake.control.deploys.dag_file import parse_dag
from tracelake.control.deploys.dag_rules import ReadableDataset
from tracelake.control.deploys.dag_shape import DAG, From, Keys, ListOf, NamedEntries, OutputShape, PartitionBy
from tracelake.control.deploys.dag_yaml import MAX_BYTES, MAX_DEPTH, MAX_VALUES
from tracelake.control.versions.scope_mapping import MAX_SPANS, Wanted, wanted
from tracelake_sdk.dags import DEFAULT_MAX_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS, ExecutionStrategy, Layer, PartitionSpec, Runtime
from tracelake_sdk.dags.operators import OPERATORS
from tracelake_sdk.datasets.cursors import EPOCH, CursorType
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope
from tracelake_sdk.errors import dags as dag_errors
from tracelake_sdk.errors.dags import DagInvalid

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "dag-file.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]


def test_every_error_is_listed_with_its_meaning() -> None:
    kinds = [kind for kind in vars(dag_errors).values() if isinstance(kind, type) and issubclass(kind, DagInvalid) and kind is not DagInvalid]
    listed = {row[0]: row[1] for row in ROWS if len(row) == 2 and row[0].startswith("`")}
    assert listed == {f"`{kind.code}`": (kind.__doc__ or "").strip() for kind in kinds}


def _keys(shape: Any) -> Iterator[str]:
    match shape:
        case Keys():
            for key, below in {**shape.needed, **shape.optional}.items():
                yield key
                yield from _keys(below)
        case ListOf(item=below) | NamedEntries(entry=below) | OutputShape(keys=below) | PartitionBy(keys=below):
            yield from _keys(below)
        case From():
            yield from _keys(shape.of_job)
            yield from _keys(shape.of_dataset)
        case _:
            pass


def test_every_key_of_the_file_is_described() -> None:
    words = {word for row in ROWS for cell in row[:2] for word in re.findall(r"`([a-z_]+)(?:: \w+)?`", cell)}
    assert set(_keys(DAG)) - words == set()


def test_every_operator_is_described_as_it_is_checked() -> None:
    described = {row[0].strip("`"): row[2:] for row in ROWS if len(row) == 5 and row[0].startswith("`")}
    assert described == {
        operator.name: [", ".join(f"`{word}`" for word in sorted(operator.activations, reverse=True)), str(operator.inputs), str(operator.outputs)]
        for operator in OPERATORS.values()
    }


def test_every_config_key_is_described_as_it_is_checked() -> None:
    described = {(row[0].strip("`"), row[1].strip("`")): (row[2], row[3] == "needed") for row in ROWS if len(row) == 4 and row[0].startswith("`")}
    assert described == {
        (operator.name, field.alias or key): (field.description, field.is_required())
        for operator in OPERATORS.values()
        for key, field in operator.config.model_fields.items()
    }


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"at most {MAX_BYTES // 1024**2} MiB, {MAX_VALUES:,} values and {MAX_DEPTH} levels" in PAGE
    assert f"; default {DEFAULT_MAX_ATTEMPTS} |" in PAGE
    assert f"; default {DEFAULT_TIMEOUT_SECONDS} |" in PAGE


def test_the_pages_first_example_is_valid() -> None:
    example = PAGE.split("```yaml\n")[1].split("```")[0]
    assert [job.name for job in parse_dag(example).jobs] == ["numbers", "hundreds"]


def test_the_pages_example_with_rows_is_valid() -> None:
    example = PAGE.split("```yaml\n")[2].split("```")[0]
    spec = parse_dag(example, locations=["landing"], datasets={"customers": ReadableDataset(Layer.SILVER, has_files=True)})
    assert [(job.name, job.runtime) for job in spec.jobs] == [("ingest_orders", Runtime.SPARK), ("clean_orders", Runtime.SPARK)]


CARRIED: dict[str, Scope | None] = {
    "a partition key": PartitionScope(key="de"), "a cursor or a range of the same type": RangeScope(start=5, end=25), "a cursor or a range": CursorScope(value=5),
    "a partition key, or a cursor of the other type": CursorScope(value=EPOCH), "the whole dataset": FullScope(), "anything": CursorScope(value=5),
}
CUT = {
    "the values of a column": PartitionSpec(column="country"), "ranges of a cursor": PartitionSpec(column="id", cursor=CursorType.INTEGER, range_size=10), "nothing": None,
    "anything": PartitionSpec(column="country"),
}
MEANT: dict[str, tuple[Scope, ...]] = {
    "everything": (), "this key": (PartitionScope(key="de"),), "this cursor, or this range": (RangeScope(start=5, end=25),),
    f"every range of `range_size` that it touches; beyond {MAX_SPANS:,} of them, everything": tuple(RangeScope(start=at, end=at + 10) for at in (0, 10, 20)),
}


@pytest.mark.parametrize("row", [row for row in ROWS if len(row) == 4 and row[0] in CUT], ids=lambda row: f"{row[0]}, {row[1]}")
def test_scopes_map_as_the_page_says(row: list[str]) -> None:
    cut, carried, per_update, per_partition = row
    for strategy, meant in ((ExecutionStrategy.PER_UPDATE, per_update), (ExecutionStrategy.PER_PARTITION, per_partition)):
        assert wanted(strategy, CUT[cut], CARRIED[carried]) == Wanted(everything=meant == "everything", scopes=MEANT[meant])


def test_the_page_maps_every_kind_of_scope() -> None:
    assert len([row for row in ROWS if len(row) == 4 and row[0] in CUT]) == 6


@pytest.mark.parametrize("where", re.findall(r"^where: (.+)$", PAGE, re.MULTILINE))
def test_the_pages_conditions_are_valid(where: str) -> None:
    example = PAGE.split("```yaml\n")[1].split("```")[0]
    spec = parse_dag(example.replace("output: 0}}]", f"output: 0}}, where: {where}}}]"))
    assert spec.jobs[1].inputs[0].where is not None
