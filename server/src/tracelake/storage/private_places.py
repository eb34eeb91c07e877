"""Private folders and prefixes: a location may not overlap them, because they contain tokens, secrets or tables of others."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tracelake.settings import Settings, settings_file
from tracelake_sdk.dags.locations import local_folder


@dataclass(frozen=True)
class PrivatePlaces:
    """Keyed by a description; folders are compared by their real paths, prefixes of object stores by whole segments."""

    folders: dict[str, Path]
    prefixes: dict[str, str]  # `bucket/prefix`

    def touched_by(self, url: str) -> str | None:
        """The private folder or prefix that this canonical URL is in, contains, or equals; None if this process knows none."""
        local = local_folder(url)
        if local is None:
            wanted = url.removeprefix("s3://").split("/")
            return next((what for what, prefix in self.prefixes.items() if _nested(wanted, prefix.split("/"))), None)
        root = Path(os.path.realpath(local))
        return next((what for what, place in self.folders.items() if _nested(root.parts, Path(os.path.realpath(place)).parts)), None)


def private_places(settings: Settings) -> PrivatePlaces:
    """Those of this process: its home, the lake, records that are stored as files, and the settings file."""
    folders, prefixes = {"the home of this installation": settings.home}, dict[str, str]()
    for what, url in (("the lake", settings.storage.url or (settings.home / "lake").absolute().as_uri()), ("the metadata records", settings.records.url)):
        parts = urlsplit(url or "")
        if parts.scheme == "file":
            folders[what] = Path(unquote(parts.path))
        elif parts.scheme == "s3":
            prefixes[what] = f"{parts.netloc}/{parts.path.strip('/')}".rstrip("/")
    if file := settings_file():
        folders["the settings file"] = file
    return PrivatePlaces(folders, prefixes)


def _nested(one: tuple[str, ...] | list[str], other: tuple[str, ...] | list[str]) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]
