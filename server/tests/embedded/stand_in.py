"""Small stand-ins for control, worker and query process, and a supervisor over them, so that the supervisor is tested by itself.

`stand_in.py control | worker | query` are the children; `stand_in.py up` is a supervisor process that a test may kill.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from tracelake.embedded.supervisor import ChildCommands, Supervisor
from tracelake.files import write_whole
from tracelake.settings import read_settings
from tracelake_sdk.home import HomeFiles


def commands() -> ChildCommands:
    return ChildCommands(*((sys.executable, __file__, part) for part in ("control", "worker", "query")))


def remember(name: str) -> None:
    """What the child was given, for the test to look at."""
    given = {key: value for key, value in os.environ.items() if key.startswith("TRACELAKE")}
    write_whole(Path(os.environ["TRACELAKE_HOME"]) / f"{name}.given.json", json.dumps(given))


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def control() -> None:
    remember("control")
    files = HomeFiles(Path(os.environ["TRACELAKE_HOME"]))
    if not files.credentials.exists():
        write_whole(files.credentials, json.dumps({"admin_token": "the-admin", "worker_token": "the-worker", "query_token": "the-query"}))
    HTTPServer(("127.0.0.1", int(os.environ["TRACELAKE__API__PORT"])), Ready).serve_forever()


def worker() -> None:
    remember("worker")
    signal.pause()


def query() -> None:
    remember("query")
    HTTPServer(("127.0.0.1", int(os.environ["TRACELAKE__QUERY__PORT"])), Ready).serve_forever()


def up() -> None:
    def say(line: str) -> None:
        print(line, flush=True)

    Supervisor(read_settings(), say=say, on_ready=lambda api_url: say(f"ready {api_url}"), commands=commands(), migrate=lambda url, service: [], durable=False).run()


if __name__ == "__main__":
    {"control": control, "worker": worker, "query": query, "up": up}[sys.argv[1]]()
