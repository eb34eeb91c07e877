"""The processes below one, and the Java machines among them."""

from pathlib import Path


def below(pid: int) -> list[tuple[int, str]]:
    """Processes that this one started, and those that they started, each with its command."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # gone meanwhile
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: list[tuple[int, str]] = []
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            waiting.append(child)
            try:
                found.append((child, (Path("/proc") / str(child) / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")))
            except OSError:
                continue
    return found


def java(pid: int) -> list[int]:
    return [child for child, command in below(pid) if "org.apache.spark" in command and command.split(" ")[0].endswith("java")]
