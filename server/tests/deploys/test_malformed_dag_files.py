"""Malformed DAG files are refused with one error that names place, line and remedy, and no text at all does harm."""

import json
import random

import pytest

from tracelake.control.deploys.dag_file import parse_dag
from tracelake.control.deploys.dag_hashes import lineage_hashes, spec_hash
from tracelake_sdk.dags import DagSpec
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.dags import DagInvalid

from .dag_drafts import Writer, draft
from .malformed_dags import BARRED_LOCATIONS, DATASETS, LOCATIONS, PROOF, ROUNDS, SEED, Malformed, by_hand, generated

CORPUS = [*by_hand(), *generated()]
FUZZED = 4000 if PROOF else 400


def parsed(text: str) -> DagSpec:
    return parse_dag(text, locations=LOCATIONS, barred_locations=BARRED_LOCATIONS, datasets=DATASETS)


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.title)
def test_a_malformed_file_is_refused_with_its_place_and_remedy(file: Malformed) -> None:
    with pytest.raises(DagInvalid) as caught:
        parsed(file.text)
    error = caught.value
    assert (error.code, error.extra["place"], error.extra["line"]) == (file.code, file.place, file.line), error.detail
    assert error.detail.startswith(f"line {file.line}, {file.place}: ")
    assert error.detail.endswith(error.extra["remedy"])
    assert len(error.extra["remedy"]) > 5
    assert len(error.detail) < 700
    assert "\n" not in error.detail
    assert TracelakeError.of(json.loads(json.dumps(error.problem()))).extra == error.extra


def test_the_corpus_has_its_declared_size() -> None:
    assert len({file.text for file in CORPUS}) >= (300 if PROOF else 100)
    assert len(by_hand()) >= 40
    assert len({file.code for file in CORPUS}) >= 30


def test_every_code_has_a_file() -> None:
    codes = {code for code, kind in TracelakeError.registered.items() if issubclass(kind, DagInvalid)} - {DagInvalid.code}
    assert {file.code for file in by_hand()} == codes - {"dag_too_large", "input_not_readable"}  # a mebibyte is generated, not kept; who may read is not in a file
    assert {file.code for file in CORPUS} == codes - {"input_not_readable"}


def _valid(number: int) -> str:
    rng = random.Random(f"{SEED} valid {number}")
    writer = Writer(rng, flow=True)
    writer.write(draft(rng).dag)
    return "\n".join(writer.lines)


def test_the_drafts_without_a_mistake_are_valid() -> None:
    for number in range(20 * ROUNDS):
        assert len(parsed(_valid(number)).jobs) >= 6


def _fuzzed(rng: random.Random, text: str) -> str:
    """The text with a few pieces removed, doubled, swapped or replaced by what YAML finds special."""
    special = ["{", "}", "[", "]", ":", "- ", "#", "&a", "*a", "!", "|", ">", "'", '"', "%", "@", "`", "\t", "\n", "---\n", "<<", "? ", "\x00", "\ud800", "\ufeff", "\x85",
               "ß", "💧", "1e999", "${", "~", "0x", "\\", "\u2028", "9" * 30, "null", "  "]
    for _ in range(rng.randint(1, 6)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice([0, 1, 1, 2, 5, 40]))
        piece = rng.choice([rng.choice(special), "", text[start:end] * 2, text[::-1][start:end], chr(rng.randrange(0x11000))])
        text = text[:start] + piece + text[end:]
    return text


def test_no_text_is_answered_with_anything_but_a_refusal() -> None:
    rng = random.Random(f"{SEED} fuzz")
    seeds = [*(file.text for file in CORPUS if len(file.text) < 20_000), *(_valid(number) for number in range(len(CORPUS)))]
    refused = 0
    for number in range(FUZZED):
        text = _fuzzed(rng, rng.choice(seeds)) if number % 10 else bytes(rng.randrange(256) for _ in range(rng.randint(0, 200))).decode("latin-1")
        try:
            spec = parsed(text)
        except DagInvalid as error:
            refused += 1
            assert 1 <= error.extra["line"] <= max(1, len(text.splitlines())), (error.detail, text)
            json.dumps(error.problem()).encode()
            assert error.detail.isprintable(), error.detail
        else:
            assert DagSpec.model_validate_json(spec.model_dump_json()) == spec
            assert spec_hash(spec)
            assert lineage_hashes(spec).keys() == {job.name for job in spec.jobs}
    assert refused > FUZZED / 2


def test_deep_and_wide_files_are_refused_at_once() -> None:
    """Each of these takes minutes, or all memory, in a reader that looks at the whole file."""
    rows = ", ".join(f"{{from: {{job: nobody_{number}, output: 0}}}}" for number in range(100))
    dangling = "".join(f"  - {{name: j{number}, activation: reactive, runtime: dispatcher, operator: noop, inputs: [{rows}]}}\n" for number in range(60))
    for text, code in (
        ("[" * 500_000, "dag_too_deep"), ("- " * 500_000, "dag_too_deep"), ("{a: " * 200_000, "dag_too_deep"), ("a: [" + "1," * 400_000 + "]", "dag_too_large"),
        ("? " * 300_000, "dag_too_deep"), (f"name: a\njobs:\n{dangling}", "dag_input_unknown_job"), ("x" * 1_000_000 + ": 1", "dag_yaml_invalid"),
        ('"' + "x" * 1_000_000 + '": 1', "dag_yaml_invalid"), ("9" * 1_000_000, "dag_number_out_of_bounds"), ("name: " + "x" * 900_000, "dag_name_invalid"),
    ):
        with pytest.raises(DagInvalid) as caught:
            parsed(text)
        assert caught.value.code == code, caught.value.detail
        assert len(caught.value.detail) < 700
