"""Every type's extreme values through the whole line: staged, measured, judged, committed, recorded, emitted, queried, and read by Delta readers."""

from collections.abc import Iterator

import pytest
from support.controls import failed
from support.extreme_values import CASES, DEFINITION, Case, ExtremeLake, extreme_lake, in_two_files

from tracelake.control.emission.checking import check
from tracelake.control.emission.facts import Installation
from tracelake.control.emission.service import Emission
from tracelake.control.emission.storing import into_repositories
from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.tasks import OperatorError

pytestmark = [pytest.mark.xdist_group("readers"), pytest.mark.proves("G3.3", "T2.4")]

INSTALLATION = Installation("embedded", "main")


@pytest.fixture(scope="module")
def extremes(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtremeLake]:
    with extreme_lake(postgres, tmp_path_factory.mktemp("extremes")) as lake:
        yield lake


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_extreme_values_pass_the_whole_line_unchanged(extremes: ExtremeLake, case: Case):
    extremes.lake.deploy(DEFINITION, name=case.name)
    dataset, written = f"{case.name}_raw", case.table()
    assert extremes.load(case.name, in_two_files(written)).result == "committing"
    assert extremes.load(case.name, in_two_files(written)).result == "unchanged"  # every key already exists: the same rows add nothing
    extremes.assert_holds(dataset, written)
    for least, most, held in extremes.bounds(dataset, "k"):
        assert all(least <= value <= most for value in held), "a reader would skip the file by a wrong bound"


@pytest.mark.parametrize("case", [case for case in CASES if case.keys], ids=lambda case: case.name)
def test_a_rule_that_extreme_rows_break_blocks_and_shows_their_keys(extremes: ExtremeLake, case: Case):
    name = f"{case.name}_blocked"
    extremes.lake.deploy(DEFINITION, name=name)
    rule = extremes.client.rules.add(f"{name}_raw", "NOT_NULL", "must")
    assert extremes.load(name, in_two_files(case.table(must=None))).result == "blocked"
    [(samples,)] = extremes.lake.query("SELECT samples FROM quality_result WHERE rule_id = %s", rule.id)
    assert len(samples) == min(5, len(case.values)) and all(sample.startswith("k=") and "\0" not in sample for sample in samples)


def test_every_run_and_decision_of_them_is_a_record(extremes: ExtremeLake):
    repositories = extremes.lake.control.record_repositories
    emission = Emission(extremes.lake.control.database, into_repositories(repositories.repository_of), INSTALLATION)
    while emission.run_once():
        pass
    found = check(extremes.lake.control.database, repositories.repository_of, INSTALLATION)
    assert found.whole, found


@pytest.mark.parametrize(("name", "message"), [("nul", "a\0b"), ("surrogate", "half \ud800 a pair"), ("megabytes", "m" * 3_000_000)], ids=lambda value: value[:9])
def test_whatever_an_operator_says_of_its_failure_is_bounded_and_readable(extremes: ExtremeLake, name: str, message: str):
    extremes.lake.deploy(DEFINITION, name=f"failing_{name}")
    task = extremes.claim(f"failing_{name}")
    error = OperatorError(error_class="odd\0class", message=message, retry=False)
    assert extremes.complete(failed(task, retry=False).model_copy(update={"error": error})).result == "done"
    [(kind, said)] = extremes.lake.query("SELECT error_class, error_message FROM task_attempt WHERE task_id = %s", task.fence.task_id)
    assert kind == "odd\N{REPLACEMENT CHARACTER}class"
    assert len(said) <= 2000 and said.startswith(message[0]) and "\0" not in said


def test_text_that_postgres_cannot_hold_is_refused_in_a_sentence_and_never_a_500(extremes: ExtremeLake):
    extremes.lake.deploy(DEFINITION, name="refusing")
    with pytest.raises(TracelakeError) as refused:
        extremes.client.dags.run("refusing", "load", {"path": "a\0b"})
    assert refused.value.status in (400, 422) and "NUL" in refused.value.detail
