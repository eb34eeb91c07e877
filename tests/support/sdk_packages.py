"""The dependencies of the SDK, found in this environment and linked into another folder."""

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def closure(name: str) -> set[str]:
    """The packages that installing this one without extras brings here, with itself."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = canonicalize_name(waiting.pop())
        if current in found:
            continue
        found.add(current)
        wanted = [Requirement(line) for line in distribution(current).requires or []]
        waiting += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def files_of(names: set[str], folder: Path) -> None:
    """Links what these packages install, and nothing else, into one folder."""
    for name in names:
        package = distribution(name)
        for top in {file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            source = Path(str(package.locate_file(top)))
            if not (folder / top).exists() and source.suffix != ".pth":
                (folder / top).symlink_to(source)
