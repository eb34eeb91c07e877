"""Partition keys: any text is a scope, is read back as it was, and is never part of a path."""

import re
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable
from support.lakes import Lake
from support.lines import PARTITIONED, load, load_parts, part, rewrite, tasks_of, wanted_scopes

KEYS = [
    "*", "[x]", "{a,b}", "a=b", "a:b", "../x", "..", ".", "/", "/etc/passwd", "x" * 300, "größe", "日本語", "🦆", " ", "a b", "%2A", "a%20b", "'", '"', "\\", "\n",
    "null", "__HIVE_DEFAULT_PARTITION__", "_delta_log", "full", "p-0", "0_10", "A", "a", "é", "e\u0301", "\u202e", "'; DROP TABLE task; --", "${HOME}", "~", "a\tb", "?",
    "(,)", "[a,b)", "i8000000000000005",
]  # fmt: skip


@pytest.mark.proves("T4.2")
@pytest.mark.proves("T8.3")
def test_every_key_is_stored_and_read_back_and_never_a_path(lake: Lake):
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {part(key): [(number, key)] for number, key in enumerate(KEYS)})
    claimed = [task for task in tasks_of(lake, "clean") if not task.payload.outputs[0].staged.everything]
    assert sorted(wanted_scopes(task)[0].key for task in claimed) == sorted(KEYS)
    for task in claimed:
        [scope] = wanted_scopes(task)
        [input_file] = task.payload.inputs[0].pinned.files
        assert input_file.scope == scope
        assert rewrite(lake, task, {scope: [(KEYS.index(scope.key), scope.key)]}).result == "committing"
    lake.move()
    table = DeltaTable(str(lake.location_of("clean")))
    rows = {row["value"]: row["id"] for row in table.to_pyarrow_table().to_pylist()}
    assert rows == {key: number for number, key in enumerate(KEYS)}
    # Paths in the log and on the disk are plain, and lie below the table.
    plain = re.compile(r"[0-9a-f-]{36}-1/p-[0-9a-f]{32}/part-0\.parquet")
    paths = [unquote(path) for path in table.file_uris()]
    assert len(paths) == len(KEYS)
    for path in paths:
        assert plain.fullmatch(path.split("/version/")[1].partition("/")[2])
    below = {path.relative_to(lake.root).as_posix() for path in lake.root.rglob("*")}
    assert all(re.fullmatch(r"[A-Za-z0-9_./-]+", path) for path in below)
    # And the scopes are the emitted ones.
    stored = lake.query("SELECT scope->>'key' FROM scope_state WHERE dataset_version_id = (SELECT id FROM dataset_version WHERE dataset_id ="
                        " (SELECT dataset.id FROM dataset JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'clean'))")
    assert sorted(key for (key,) in stored) == sorted(KEYS)


def test_a_replace_of_one_key_touches_no_other(lake: Lake):
    """A key that another engine would expand to others is only itself."""
    keys = ["*", "a", "ab", "[ab]", "A"]
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {part(key): [(1, key)] for key in keys})
    for task in tasks_of(lake, "clean"):
        if not task.payload.outputs[0].staged.everything:
            [scope] = wanted_scopes(task)
            rewrite(lake, task, {scope: [(1, scope.key)]})
    lake.move()
    load_parts(lake, {part("*"): [(2, "*")]})
    task = next(task for task in tasks_of(lake, "clean") if not task.payload.outputs[0].staged.everything)
    rewrite(lake, task, {part("*"): [(2, "*")]})
    lake.move()
    assert lake.rows(lake.location_of("clean")) == sorted([(2, "*"), (1, "a"), (1, "ab"), (1, "[ab]"), (1, "A")])
