"""Opens the folder of a URL or a path."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.records.repository.embedded.folders import Folder, LocalFolder, Watch
from tracelake_sdk.records.repository.embedded.segments import FileLog, ObjectLog, RecordLog


def open_folder(where: str | Path, *, fsync: bool, options: Mapping[str, str], segment_bytes: int, watch: Watch) -> tuple[Folder, RecordLog]:
    """Opens without reading or writing. Accepts a path, `file:…` or `s3://bucket/prefix`; raises SettingInvalid for anything else."""
    if isinstance(where, str):
        url = urlsplit(where)
        if url.scheme == "s3" and url.netloc and not url.query and not url.fragment:
            objects = _objects(url.netloc, url.path.strip("/"), options)
            return objects, ObjectLog(objects)
        if url.scheme == "file" and url.netloc in ("", "localhost") and url.path:
            where = unquote(url.path)
        elif not where or "://" in where:
            raise SettingInvalid("The folder of a repository must be a path, `file:///folder` or `s3://bucket/prefix`.")
    root = Path(where).expanduser().absolute()
    if root.is_file():
        raise SettingInvalid("The folder of a repository is a file; name a folder, or a path that does not exist yet.")
    folder = LocalFolder(root, fsync=fsync, watch=watch)
    return folder, FileLog(folder, segment_bytes=segment_bytes)


def _objects(bucket: str, prefix: str, options: Mapping[str, str]) -> Folder:
    try:
        from tracelake_sdk.records.repository.embedded.object_folders import ObjectFolder  # noqa: PLC0415  # an extra; folders do without
    except ModuleNotFoundError as missing:
        if missing.name != "obstore":
            raise
        raise SettingInvalid("A repository under `s3://` needs the package obstore; install `tracelake-sdk[s3]`.") from None
    return ObjectFolder(bucket, prefix, options)
