"""The JSON Schema of DAG files says of a file's shape what deploys say of it."""

import json
import random
from pathlib import Path

import pytest
import yaml
from jsonschema_rs import validator_for
from support.pages import ROOT

from tools import dag_schema
from tracelake.control.deploys.dag_schema import dag_file_schema

from .dag_drafts import Writer, draft
from .malformed_dags import SEED, Malformed, by_hand, generated

SCHEMA = validator_for(dag_file_schema())
# Mistakes of shape, which an editor can see; the others are about meaning, or about YAML itself.
OF_SHAPE = {
    "dag_key_missing", "dag_key_unknown", "dag_type_wrong", "dag_value_missing", "dag_value_unknown", "dag_name_invalid", "dag_number_out_of_bounds",
    "dag_list_length", "dag_column_invalid", "dag_input_mixed", "dag_bulk_refused", "dag_source_not_available",
}  # fmt: skip
MISTAKES = [file for file in [*by_hand(), *generated()] if file.code in OF_SHAPE]


@pytest.mark.parametrize("file", MISTAKES, ids=lambda file: file.title)
def test_an_editor_marks_every_mistake_of_shape(file: Malformed) -> None:
    assert not SCHEMA.is_valid(yaml.safe_load(file.text))


@pytest.mark.parametrize("file", ["examples/shop/dag.yaml", "examples/ranges/dag.yaml", "sdk/src/tracelake_sdk/cli/project/template/dag.yaml"])
def test_an_editor_marks_nothing_in_the_examples(file: str) -> None:
    assert [error.message for error in SCHEMA.iter_errors(yaml.safe_load((ROOT / file).read_text()))] == []


def test_an_editor_marks_nothing_in_valid_drafts() -> None:
    for number in range(20):
        writer = Writer(rng := random.Random(f"{SEED} schema {number}"), flow=True)
        writer.write(draft(rng).dag)
        found = SCHEMA.iter_errors(yaml.safe_load("\n".join(writer.lines)))
        assert [(error.message, error.instance_path) for error in found] == []


def test_the_shipped_schema_is_the_generated_one(tmp_path: Path) -> None:
    assert dag_schema.main(["--check"]) == 0
    target = tmp_path / dag_schema.TARGET
    target.parent.mkdir(parents=True)
    assert dag_schema.main(["--check"], tmp_path) == 1
    assert dag_schema.main([], tmp_path) == 0
    assert json.loads(target.read_text()) == json.loads(json.dumps(dag_file_schema()))
