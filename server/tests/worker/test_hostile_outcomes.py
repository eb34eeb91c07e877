"""The outcome of a program is never trusted: names that lead elsewhere, entries that are not regular files, and invalid outcomes."""

import json
import os
from pathlib import Path

import pytest

from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.spark.orders import read_reported
from tracelake_sdk.tasks.operator_files import BatchReady, OperatorOutcome

from .workshop import Workshop


def outcome_with(files: list[str], index: int = 0) -> str:
    return json.dumps({"outputs": [{"index": index, "files": files, "scopes": [{"kind": "full"}]}]})


HOSTILE = {
    "outside": outcome_with(["../../other/part.parquet"]),
    "absolute": outcome_with(["/etc/passwd"]),
    "a glob": outcome_with(["full/*.parquet"]),
    "an empty part": outcome_with(["full//part.parquet"]),
    "a null byte": outcome_with(["full/\0.parquet"]),
    "twice": outcome_with(["full/a.parquet", "full/a.parquet"]),
    "too many": outcome_with([f"full/{number}.parquet" for number in range(20_001)]),
    "an output that there is not": outcome_with([], index=9),
    "no JSON": "{",
    "another shape": json.dumps({"outputs": "secret-data"}),
    "a further key": json.dumps({"secret-data": 1}),
    "deep": '{"custom":' + "[" * 100_000 + "]" * 100_000 + "}",
    "nothing": "",
    "a NUL in its state": json.dumps({"state": {"secret-data": "a\0b"}}),
    "half of a surrogate pair in its notes": json.dumps({"custom": {"secret-data": "\ud800"}}),
    "half of a surrogate pair in its error": json.dumps({"error": {"error_class": "odd", "message": "secret-data \ud800"}}),
    "not a number": json.dumps({"state": {"secret-data": float("nan")}}),
}


@pytest.mark.proves("T3.7")
@pytest.mark.parametrize("how", list(HOSTILE))
def test_a_hostile_outcome_is_a_final_failure_that_measures_nothing(how: str, shop: Workshop):
    shop.spec(outcome=HOSTILE[how])
    shop.run(shop.task())
    [report] = shop.control.completions
    assert report.error is not None and (report.error.error_class, report.error.retry) == ("outcome_invalid", False)
    assert "secret-data" not in report.error.message and "passwd" not in report.error.message
    assert shop.measured == []


def test_a_state_that_no_store_can_carry_is_refused_by_name(tmp_path: Path):
    (tmp_path / "outcome.json").write_text(HOSTILE["a NUL in its state"])
    with pytest.raises(OperatorFailed, match=r"at state \(nul_character\)"):
        read_reported(tmp_path / "outcome.json", OperatorOutcome, what="outcome")


def test_a_nul_in_an_error_is_shown_by_its_replacement(shop: Workshop):
    shop.spec(outcome=json.dumps({"error": {"error_class": "odd\0class", "message": "a\0b", "retry": False}}))
    shop.run(shop.task())
    [report] = shop.control.completions
    assert report.error is not None
    assert (report.error.error_class, report.error.message) == ("odd\N{REPLACEMENT CHARACTER}class", "a\N{REPLACEMENT CHARACTER}b")


def test_a_link_a_pipe_a_folder_and_a_giant_are_no_outcome(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "giant").open("wb") as file:
        file.truncate(10**12)
    for name in ("link", "pipe", "folder", "giant"):
        with pytest.raises(OperatorFailed) as failed:
            read_reported(tmp_path / name, OperatorOutcome, what="outcome")
        assert failed.value.error_class == "outcome_invalid"
    assert read_reported(tmp_path / "absent", OperatorOutcome, what="outcome") is None
    assert read_reported(secret, OperatorOutcome, what="outcome") == OperatorOutcome()
    (tmp_path / "list").write_text("[1]")
    with pytest.raises(OperatorFailed, match="at its top"):
        read_reported(tmp_path / "list", BatchReady, what="batch")
