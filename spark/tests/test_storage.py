"""Both kinds of storage say and do the same."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tracelake_spark.storage import HadoopStorage, LocalStorage, Storage, parquet_rows, storage_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ODD = ["*.csv", "[a].csv", "a b%20.csv", "deep/k=v/x.csv", "_hidden", ".crc", "é.csv"]


@pytest.fixture(params=["local", "hadoop"])
def storage(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Storage:
    return LocalStorage() if request.param == "local" else HadoopStorage(spark, f"file://{tmp_path}")


def test_files_are_listed_by_the_names_they_have(storage: Storage, tmp_path: Path) -> None:
    for name in ODD:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = {each.path: (each.size, each.modified_ns // 1_000_000) for each in storage.list_files(f"file://{tmp_path}")}
    assert found == {name: (len(name.encode()), (tmp_path / name).stat().st_mtime_ns // 1_000_000) for name in ODD}


def test_files_are_found_moved_and_removed(storage: Storage, tmp_path: Path) -> None:
    root = f"file://{tmp_path}"
    storage.make_folder(f"{root}/a/b")
    storage.make_folder(f"{root}/a/b")
    (tmp_path / "a" / "x").write_text("text")
    assert (storage.is_folder(f"{root}/a"), storage.is_folder(f"{root}/a/x"), storage.is_folder(f"{root}/none")) == (True, False, False)
    storage.move([(f"{root}/a/x", f"{root}/a/b/y")])
    found = storage.find_file(f"{root}/a/b/y")
    assert found is not None
    assert (found.path, found.size) == ("y", 4)
    assert storage.find_file(f"{root}/a/x") is None
    storage.remove(f"{root}/a")
    assert list(tmp_path.iterdir()) == []


def test_moving_what_is_not_there_is_an_error(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"no|not"):
        storage.move([(f"file://{tmp_path}/none", f"file://{tmp_path}/other")])


def test_the_scheme_says_which_storage_it_is(spark: SparkSession) -> None:
    assert isinstance(storage_of(spark, "file:///x"), LocalStorage)


def test_rows_are_counted_by_the_footer(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(7).coalesce(1).write.parquet(f"file://{tmp_path}/seven")
    assert [parquet_rows(spark, f"file://{path}") for path in (tmp_path / "seven").glob("part-*.parquet")] == [7]


