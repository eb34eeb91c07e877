"""A process dies at the named moment, and no secret reaches a log."""

import json
import signal
import subprocess
import sys

import pytest

from tracelake.chaos import watch_for
from tracelake.logging_setup import mask_secrets
from tracelake_sdk.errors import SettingInvalid

REACH = "import sys; from tracelake.chaos import watch_for; watch = watch_for(sys.argv[1]); [watch(m) or print(m, flush=True) for m in ('a:b', 'c', 'a:b', 'c')]"
LOG = """
import logging, structlog
from tracelake.logging_setup import configure_logging
configure_logging()
structlog.get_logger().info("happened", token="s3", nested=[{"lease_token": "s3", "kept": 1}], claim_id="s3", worker_token="s3", SQL="s3")
structlog.get_logger().debug("unseen")
logging.getLogger("a.library").warning("careful %s", "now")
logging.getLogger("httpx2").info("unseen")
try:
    raise ValueError("a value of somebody's row") from KeyError("SELECT secret")
except ValueError as error:
    structlog.get_logger().exception("broke")
    logging.getLogger("a.library").error("broke there", exc_info=error)
"""


def run(program: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.mark.parametrize(("kill_at", "before"), [("a:b", ""), ("c", "a:b\n"), ("a:b*2", "a:b\nc\n"), ("c*2", "a:b\nc\na:b\n")])
def test_a_process_dies_at_the_named_moment(kill_at: str, before: str):
    ended = run(REACH, kill_at)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, before)


@pytest.mark.parametrize("kill_at", ["d", "c*3"])
def test_a_moment_that_is_not_reached_kills_no_process(kill_at: str):
    assert run(REACH, kill_at).stdout == "a:b\nc\na:b\nc\n"


@pytest.mark.parametrize("kill_at", ["", "c*", "c*0", "*2", "c d"])
def test_a_moment_that_cannot_be_meant_is_refused(kill_at: str):
    with pytest.raises(SettingInvalid, match="TRACELAKE__CHAOS__KILL_AT"):
        watch_for(kill_at)


def test_without_a_moment_nothing_is_watched():
    watch_for(None)("claim:before_commit")


def test_logs_are_lines_of_json_in_utc_without_secrets():
    ended = run(LOG)
    assert ended.stdout == ""
    entry, library, broke, broke_there = [json.loads(line) for line in ended.stderr.splitlines()]
    assert entry.pop("at").endswith("Z")
    assert entry == {
        "event": "happened", "level": "info", "token": "***", "nested": [{"lease_token": "***", "kept": 1}], "claim_id": "***", "worker_token": "***", "SQL": "***",
    }
    assert (library["event"], library["level"], library["logger"]) == ("careful now", "warning", "a.library")
    for entry in (broke, broke_there):
        assert (entry["error"], entry["cause"], entry["raised_in"]) == ("ValueError", "KeyError", ["<string>:10 <module>"])
    assert "somebody" not in ended.stderr and "SELECT" not in ended.stderr


def test_the_level_of_logs_is_chosen_by_the_environment():
    assert "unseen" in run(LOG, TRACELAKE_LOG_LEVEL="debug").stderr
    assert [json.loads(line)["event"] for line in run(LOG, TRACELAKE_LOG_LEVEL="ERROR").stderr.splitlines()] == ["broke", "broke there"]
    assert "TRACELAKE_LOG_LEVEL" in run(LOG, TRACELAKE_LOG_LEVEL="loud").stderr


def test_the_header_with_the_token_is_masked_however_it_is_spelt():
    assert mask_secrets(None, "info", {"headers": {"Authorization": "Bearer s3", "Accept": "x"}}) == {"headers": {"Authorization": "***", "Accept": "x"}}
