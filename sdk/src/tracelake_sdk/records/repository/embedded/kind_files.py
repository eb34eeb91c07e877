"""The kinds of a folder: one file per version under `kinds/`, and the built-in ones."""

import re

from tracelake_sdk.errors.records import KindUnknown
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.kinds.builtin import builtin_kinds
from tracelake_sdk.records.kinds.governance import admit
from tracelake_sdk.records.repository.embedded.folders import Folder
from tracelake_sdk.records.repository.embedded.layout import KINDS, kind_path

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class KindFiles:
    """Caches the kinds; each use of the repository checks once whether another process has registered more."""

    def __init__(self, folder: Folder) -> None:
        self._folder: Folder = folder
        self._read: dict[str, list[Kind]] = {}
        self._looked: set[str] = set()

    def look_again(self) -> None:
        """The next read of each kind goes to the files."""
        self._looked.clear()

    def names(self) -> list[str]:
        registered = {path.split("/")[1] for path in self._folder.paths(KINDS) if path.count("/") == 2}
        return sorted(registered | {kind.name for kind in builtin_kinds()})

    def versions(self, name: str) -> list[Kind]:
        """Oldest first; empty if the kind is not registered."""
        if name in self._looked or not _NAME.fullmatch(name):
            return self._read.get(name, [])
        versions = self._read.get(name) or [kind for kind in builtin_kinds() if kind.name == name]
        # A built-in kind cannot be changed.
        while not (versions and versions[-1].built_in) and (body := self._folder.read(kind_path(name, len(versions) + 1))) is not None:
            versions = [*versions, Kind.model_validate_json(body)]
        self._looked.add(name)
        self._read[name] = versions
        return versions

    def get(self, name: str, version: int | None = None) -> Kind:
        """Raises KindUnknown."""
        versions = self.versions(name)
        if not versions or not 1 <= (version or 1) <= len(versions):
            raise KindUnknown(f"No kind {name}{f' version {version}' if version else ''} is registered; see `tracelake kind list`.")
        return versions[(version or len(versions)) - 1]

    def register(self, kind: Kind, *, check_only: bool) -> Kind:
        while True:
            self.look_again()
            versions = self.versions(kind.name)
            admitted = admit(kind, versions)
            if check_only or admitted in versions:
                return admitted
            if self._folder.put_new(kind_path(kind.name, admitted.version), admitted.model_dump_json(by_alias=True, indent=2).encode() + b"\n"):
                return admitted
