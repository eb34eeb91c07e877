"""What the command line understands and how it prints, without any system."""

import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from rich.console import Console
from support.wire import Said, serving

from tracelake_sdk.cli import invocation, options
from tracelake_sdk.cli.actions import running
from tracelake_sdk.cli.actions.guard import absent_words, add_rule
from tracelake_sdk.cli.actions.tasks import WAITS
from tracelake_sdk.cli.commands import dags, guard, tasks
from tracelake_sdk.cli.picture import branches, print_dag
from tracelake_sdk.cli.printing import TableColumn, clean, print_table
from tracelake_sdk.cli.targets import Target, parse_cursors, parse_job, parse_target, request_of
from tracelake_sdk.dags import Layer
from tracelake_sdk.dags.status import DagStatus, JobStatus, TaskCounts
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope
from tracelake_sdk.errors import Forbidden
from tracelake_sdk.rules import RuleScope, RuleType, Severity
from tracelake_sdk.rules.promotions import Enforcement, PolicyType
from tracelake_sdk.tasks import MAX_EVENTS, TaskState, Waits
from tracelake_sdk.tasks.cascades import CausedJob
from tracelake_sdk.tasks.runs import RunStatus
from tracelake_sdk.wording import scope_words

ID = "01a1dec1-5595-7316-8138-6f2f0dc5dde6"


def job(name: str, *inputs: str, **parts: Any) -> JobStatus:
    counts = TaskCounts(queued=0, waiting={}, running=0, committing=0, completed=0, failed=0, canceled=0, more=False)
    return JobStatus.model_validate(
        {"name": name, "operator": "noop", "runtime": "dispatcher", "inputs": inputs, "paused": False, "pause_reason": None, "tasks": counts} | parts
    )


def picture(*jobs: JobStatus) -> list[str]:
    drawn = branches(DagStatus(name="d", version=1, paused=False, jobs=list(jobs)))
    return [branch.picture + (f" +{','.join(branch.also_reads)}" if branch.also_reads else "") for branch in drawn]


def test_a_target_is_a_dag_or_a_job_of_it() -> None:
    assert parse_target("ranges") == Target("ranges", None)
    assert parse_job("ranges/numbers") == ("ranges", "numbers")
    for wrong in ("", "/", "ranges/", "/numbers", "a/b/c"):
        with pytest.raises(typer.BadParameter):
            parse_target(wrong)
    with pytest.raises(typer.BadParameter, match="ranges/JOB"):
        parse_job("ranges")


def test_everything_that_a_task_may_wait_for_has_words() -> None:
    assert set(WAITS) == set(Waits)


def test_cursors_keep_their_order_and_spans_have_both_ends() -> None:
    assert parse_cursors(["5"]) == [5]
    assert parse_cursors(["1..3,9", "-2..-1"]) == [1, 2, 3, 9, -2, -1]
    assert parse_cursors(["2024-01-01T00:00:00Z, 2024-01-02T00:00:00Z"]) == ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]
    assert len(parse_cursors([f"1..{MAX_EVENTS}"])) == MAX_EVENTS


@pytest.mark.parametrize(
    ("cursors", "parts"),
    [
        (["3..1"], {}),
        ([f"0..{MAX_EVENTS}"], {}),
        (["0..99999999999999999999"], {}),
        (["1.5"], {}),
        (["yesterday"], {}),
        (["2024-01-01T00:00:00"], {}),
        (["1,2024-01-01T00:00:00Z"], {}),
        (["1,,2"], {}),
        ([], {"request": "{"}),
        ([], {"request": "[1]"}),
        (["1"], {"request": "{}"}),
    ],
)
def test_words_that_make_no_request_are_wrong_usage(cursors: list[str], parts: dict[str, Any]) -> None:
    with pytest.raises(typer.BadParameter):
        request_of(cursors, **{"rewrite": False, "request": None} | parts)


def test_a_request_is_made_of_cursors_or_given_whole() -> None:
    assert request_of(["1..2"], rewrite=True, request=None) == {"cursors": [1, 2], "rewrite": True}
    assert request_of(["2024-01-10T05:00:00+01:00"], rewrite=False, request=None) == {"cursors": ["2024-01-10T04:00:00Z"], "rewrite": False}
    assert request_of([], rewrite=False, request='{"a": 1}') == {"a": 1}
    assert request_of([], rewrite=False, request=None) == {}
    assert request_of([], rewrite=True, request=None) == {"rewrite": True}


def test_the_words_for_states_are_those_of_the_models() -> None:
    assert list(get_args(tasks.State)) == [state.value for state in TaskState]
    assert list(get_args(dags.Status)) == [status.value for status in RunStatus]
    for words, enum in (
        (options.LayerName, Layer), (guard.SeverityName, Severity), (guard.ScopeName, RuleScope), (guard.EnforcementName, Enforcement),
        (guard.RuleTypeName, RuleType), (guard.PolicyTypeName, PolicyType),
    ):  # fmt: skip
        assert list(get_args(words)) == [member.value for member in enum]


def test_a_dag_is_drawn_as_a_tree_with_every_job_once() -> None:
    assert picture(job("a"), job("b", "a"), job("c", "b"), job("d", "a"), job("e", "d", "c"), job("f")) == [
        "a",
        "├─ b",
        "│  └─ c",
        "└─ d",
        "   └─ e +c",
        "f",
    ]


def test_a_dataset_may_bear_the_name_of_a_job() -> None:
    assert picture(job("a", "a"), job("b", "a", "elsewhere")) == ["a +a", "└─ b +elsewhere"]
    assert sorted(picture(job("a", "b"), job("b", "a"))) == ["a +b", "b +a"]


def test_a_paused_job_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = TaskCounts(queued=0, waiting={"paused": 3}, running=0, committing=0, completed=4, failed=1, canceled=0, more=True)
    print_dag(DagStatus(name="d", version=2, paused=True, jobs=[job("a", paused=True, pause_reason="Task 7 failed.", tasks=waiting)]))
    said = capsys.readouterr().out
    assert said.startswith("d  version 2  paused\n")
    assert "3 (paused)" in said
    assert "paused: Task 7 failed." in said
    assert "only the newest tasks are counted" in said


@pytest.mark.parametrize("terminal", [True, False])
def test_a_narrow_screen_never_cuts_an_id(terminal: bool) -> None:
    written = StringIO()
    screen = Console(file=written, width=30, force_terminal=terminal, color_system=None)
    print_table([TableColumn("task"), TableColumn("number", right=True), TableColumn("error", folds=True)], [[ID, "7", "word " * 30], [ID, "12", ""]], to=screen)
    lines = written.getvalue().splitlines()
    assert written.getvalue().count(ID) == 2
    assert lines[2].startswith(f"{ID}       7  word")
    assert (len(lines) > 4) is terminal
    assert all(line == line.rstrip() for line in lines)


def test_what_comes_from_outside_cannot_steer_the_terminal() -> None:
    written = StringIO()
    print_table([TableColumn("error")], [["\x1b[31mred[bold]\r\x07"]], to=Console(file=written, force_terminal=True, color_system=None))
    assert "\\x1b[31mred[bold]\\r\\x07" in written.getvalue()
    assert clean("a\tb – ü\u202e") == "a\\tb – ü\\u202e"


def test_scopes_read_like_what_they_are() -> None:
    scopes = [CursorScope(value=5), RangeScope(start=0, end=100), PartitionScope(key="de"), FullScope(), None]
    assert [scope_words(scope) for scope in scopes] == ["5", "[0, 100)", "partition de", "everything", ""]


def test_a_printed_command_calls_this_very_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin with space" / "tracelake"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.delenv("TRACELAKE_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert invocation.again("status", "a b") == f"'{program}' status 'a b'"
    assert invocation.pasteable("see `tracelake status`, of the package `tracelake`") == f"see `'{program}' status`, of the package `tracelake`"
    monkeypatch.setenv("PATH", str(program.parent))
    assert invocation.again("status") == "tracelake status"
    monkeypatch.setenv("TRACELAKE_HOME", "/a home")
    assert invocation.again("up") == "TRACELAKE_HOME='/a home' tracelake up"
    monkeypatch.setattr(sys, "argv", ["/x/cli/__main__.py"])
    assert invocation.program() == f"{sys.executable} -m tracelake_sdk.cli"


def test_help_loads_nothing_heavy() -> None:
    program = """
import sys
sys.argv = ["tracelake", "--help"]
from tracelake_sdk.cli.main import main
try:
    main()
finally:
    heavy = ("pydantic", "httpx2", "rich", "yaml", "tracelake")
    print([name for name in heavy if name in sys.modules])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.endswith("[]\n")
    for command in ("up", "demo", "doctor", "deploy", "run", "status", "task", "events", "log", "pause", "resume", "version"):
        assert f"\n  {command} " in answer.stdout


def test_without_its_extra_the_command_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; from tracelake_sdk.cli.main import main"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (1, "The command line is an extra of the SDK; install `tracelake-sdk[cli]`.\n")


def test_the_demos_dag_is_the_example() -> None:
    root = Path(__file__).resolve().parents[2]
    assert (root / "sdk/src/tracelake_sdk/cli/demo/shop.yaml").read_bytes() == (root / "examples/shop/dag.yaml").read_bytes()


def test_a_progress_line_has_no_indentation_of_the_tree():
    tasks = {"queued": 0, "waiting": {}, "running": 0, "committing": 0, "completed": 1, "failed": 0, "canceled": 0, "more": False}
    jobs = [CausedJob.model_validate({"dag": "d", "job": name, "after": after, "tasks": tasks}) for name, after in (("a", None), ("b", "d/a"), ("c", "d/b"))]
    assert running.line_of(running.branches(jobs)) == "d/a completed; d/b completed; d/c completed"


def test_an_absent_column_is_named_with_the_nearest_one():
    assert absent_words("orders", ["amont"], ["id", "amount"]).endswith("has no column amont: a run without this column cannot be measured and is blocked. Did you mean amount?")
    assert absent_words("orders", ["zzz"], ["id"]).endswith("is blocked.")


def test_a_rule_of_somebody_who_may_not_read_the_columns_is_stored_all_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    id = "0190a0a0-0000-7000-8000-000000000001"
    rule = {
        "id": id, "revision": 1, "dataset_id": id, "dataset_name": "orders", "layer": "bronze", "rule_type": "NOT_NULL", "rule_expression": "amont",
        "severity": "FAIL", "scope": "batch", "active": True, "actor": "wanda", "at": "2024-01-10T05:00:00Z", "absent_columns": ["amont"],
    }  # fmt: skip
    refused = Said(403, Forbidden().problem(), "application/problem+json")
    with serving(lambda asked: Said(200, rule) if asked.method == "POST" else refused) as server:
        monkeypatch.setenv("TRACELAKE_API_URL", server.url)
        monkeypatch.setenv("TRACELAKE_TOKEN", "t")
        add_rule("orders", "NOT_NULL", "amont", severity="FAIL", scope="batch", key=None, dry_run=False, as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert f"Rule {id} of orders is active as revision 1" in said
    assert said.endswith("cannot be measured and is blocked.")
