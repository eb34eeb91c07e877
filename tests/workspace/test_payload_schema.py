"""The published schema of the payload is the one that the SDK's model has."""

from pathlib import Path

import pytest

from tools import payload_schema


def test_the_published_schema_is_fresh():
    assert payload_schema.main(["--check"]) == 0


def test_a_stale_schema_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / payload_schema.TARGET
    target.parent.mkdir(parents=True)
    assert payload_schema.main(["--check"], tmp_path) == 1
    assert payload_schema.main([], tmp_path) == 0
    assert payload_schema.main(["--check"], tmp_path) == 0
    target.write_text(target.read_text().replace("task_id", "taskid"))
    assert payload_schema.main(["--check"], tmp_path) == 1
    assert "make docs" in capsys.readouterr().err
