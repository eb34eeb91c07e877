"""How this program was called, so that every printed command can be pasted."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from tracelake_sdk.errors import ServerMissing

_MENTIONED = re.compile(r"`(tracelaked?)(?= )")


def program() -> str:
    """`tracelake` if PATH finds this program, else the path by which it was called."""
    called = sys.argv[0]
    if Path(called).name == "__main__.py":
        return shlex.join([sys.executable, "-m", "tracelake_sdk.cli"])
    return shlex.quote(_by_name(Path(called)))


def again(*words: str, elsewhere: bool = False) -> str:
    """A command of this program; it names the home if that is not the default one. `elsewhere`: the command must also work in another folder."""
    called = program()
    if elsewhere and os.sep in called and not Path(sys.argv[0]).is_absolute():
        called = shlex.quote(str(Path(sys.argv[0]).absolute()))
    return f"{_home(absolute=elsewhere)}{called} {shlex.join(words)}"


def pasteable(text: str) -> str:
    """The same text, with its commands written so that they run here."""

    def spelt(mention: re.Match[str]) -> str:
        if mention[1] == "tracelake":
            return f"`{_home()}{program()}"
        try:
            return f"`{_home()}{shlex.quote(_by_name(server_program()))}"
        except ServerMissing:
            return mention[0]

    return _MENTIONED.sub(spelt, text)


def server_program() -> Path:
    """`tracelaked` of this environment, else from PATH; raises ServerMissing."""
    beside = Path(sys.executable).with_name("tracelaked")
    if beside.is_file() and os.access(beside, os.X_OK):
        return beside
    if found := shutil.which("tracelaked"):
        return Path(found)
    raise ServerMissing(f"The programs of a Tracelake system are not installed here; install the package `tracelake` into {sys.prefix}.")


def _home(*, absolute: bool = False) -> str:
    home = os.environ.get("TRACELAKE_HOME")
    if home and absolute:
        home = str(Path(home).absolute())
    return f"TRACELAKE_HOME={shlex.quote(home)} " if home else ""


def _by_name(file: Path) -> str:
    """Only the name if PATH finds this file."""
    on_path = shutil.which(file.name)
    try:
        same = on_path is not None and file.samefile(on_path)
    except OSError:
        same = False
    return file.name if same else str(file)
