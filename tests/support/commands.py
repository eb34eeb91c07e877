"""`tracelake …` inside the test's own process: the same commands, without starting a program for each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tracelake_sdk.cli.main import app


class Commands:
    """Where many commands prepare a test; what a person sees of one is tried with the program itself."""

    def __init__(self, home: Path, api_url: str, *, token: str | None = None) -> None:
        self._environment: Mapping[str, str | None] = {"TRACELAKE_HOME": str(home), "TRACELAKE_API_URL": api_url, "TRACELAKE_TOKEN": token}

    def __call__(self, *words: str, stdin: str = "") -> str:
        answer = CliRunner().invoke(app, words, input=stdin, env=self._environment, catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    def json(self, *words: str, stdin: str = "") -> Any:
        return json.loads(self(*words, "-o", "json", stdin=stdin))
