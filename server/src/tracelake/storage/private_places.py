"""Private places: what no location may be in or around, since it holds tokens, secrets or other people's tables."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tracelake.settings import Settings, settings_file
from tracelake_sdk.dags.locations import local_folder


@dataclass(frozen=True)
class PrivatePlaces:
    """By what they are; folders are compared by their real paths, prefixes of object stores by whole segments."""

    folders: dict[str, Path]
    prefixes: dict[str, str]  # `bucket/prefix`

    def touched_by(self, url: str) -> str | None:
        """What the location of this canonical URL is in, around, or the same as; None: nothing that this process knows of."""
        local = local_folder(url)
        if local is None:
            wanted = url.removeprefix("s3://").split("/")
            return next((what for what, prefix in self.prefixes.items() if _nested(wanted, prefix.split("/"))), None)
        root = Path(os.path.realpath(local))
        return next((what for what, place in self.folders.items() if _nested(root.parts, Path(os.path.realpath(place)).parts)), None)


def private_places(settings: Settings) -> PrivatePlaces:
    """Of this process: its home, the lake, records that are kept as files, and the settings file."""
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
