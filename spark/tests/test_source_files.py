"""Source files are those below a path of a location; nothing leads out of it, and no message says where it is."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tracelake_sdk.dags.locations import LocationPath
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.operators import source_files
from tracelake_spark.operators.source_files import LocalTree, SourceFile, StoredTree, find_files

pytestmark = [pytest.mark.proves("T3.12")]


class SourceFolder:
    """A location `landing`, and beside it a folder with a secret."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root, self.outside = folder / "landing", folder / "outside"
        (self.root / "orders").mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "secret.csv").write_text("token\nabc\n")

    def put(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("id\n1\n")
        return path

    def find(self, path: str) -> list[SourceFile]:
        # None of this uses Spark.
        return find_files(None, path, {"landing": self.root.as_uri()})  # pyright: ignore[reportArgumentType]

    def refusal(self, path: str) -> tuple[str, str]:
        with pytest.raises(OperatorFailed) as refused:
            self.find(path)
        message = refused.value.error.message
        assert str(self.folder) not in message, "the message contains the path of a location"
        return refused.value.error.error_class, message


@pytest.fixture
def source_folder(tmp_path: Path) -> SourceFolder:
    return SourceFolder(tmp_path)


def test_files_come_in_the_order_of_their_names_with_the_names_that_people_know(source_folder: SourceFolder) -> None:
    for name in ("b", "a", "c/d"):
        source_folder.put(f"orders/{name}")
    found = source_folder.find("landing/orders")
    assert [file.name for file in found] == ["a", "b", "c/d"]
    assert [file.shown for file in found] == ["landing/orders/a", "landing/orders/b", "landing/orders/c/d"]
    assert found[2].uri == f"file://{source_folder.root}/orders/c/d"


def test_a_beginning_ends_where_the_location_does(source_folder: SourceFolder) -> None:
    source_folder.put("orders-1.csv")
    source_folder.root.rename(source_folder.folder / "landing-of-others")
    assert source_folder.refusal("landing")[0] == "path_missing"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "file:///etc/passwd", "file:/%2e%2e/x", "landing/../outside/secret.csv", "landing/orders/../../outside", "..", "landing//etc", "~/x", "Landing"]
)
def test_a_path_that_is_not_below_a_location_is_refused(source_folder: SourceFolder, path: str) -> None:
    assert source_folder.refusal(path)[0] == "location_path_invalid"


def test_encoded_dots_are_a_name(source_folder: SourceFolder) -> None:
    assert source_folder.refusal("landing/%2e%2e/outside/secret.csv")[0] == "path_missing"
    source_folder.put("%2e%2e/x.csv")
    assert [file.shown for file in source_folder.find("landing/%2e%2e")] == ["landing/%2e%2e/x.csv"]


def test_a_location_that_the_task_was_not_given_is_refused(source_folder: SourceFolder) -> None:
    assert source_folder.refusal("elsewhere/x")[0] == "location_unknown"


@pytest.mark.parametrize("target", ["../../outside/secret.csv", "{outside}/secret.csv"])
@pytest.mark.parametrize("path", ["landing", "landing/orders", "landing/orders/x.csv", "landing/orders/x"])
def test_a_link_to_a_file_outside_is_refused_by_name(source_folder: SourceFolder, target: str, path: str) -> None:
    (source_folder.root / "orders/x.csv").symlink_to(target.format(outside=source_folder.outside))
    code, message = source_folder.refusal(path)
    assert code == "link_refused"
    assert "landing/orders/x.csv" in message


@pytest.mark.parametrize("path", ["landing", "landing/in", "landing/in/secret.csv", "landing/in/sec"])
def test_a_link_to_a_folder_outside_is_refused_by_name(source_folder: SourceFolder, path: str) -> None:
    (source_folder.root / "in").symlink_to(source_folder.outside)
    code, message = source_folder.refusal(path)
    assert code == "link_refused"
    assert "landing/in" in message


def test_a_link_to_a_link_outside_is_refused(source_folder: SourceFolder) -> None:
    (source_folder.root / "_hop").symlink_to(source_folder.outside)
    (source_folder.root / "orders/x").symlink_to("../_hop")
    assert source_folder.refusal("landing/orders")[0] == "link_refused"


def test_a_folder_that_begins_like_the_location_is_outside(source_folder: SourceFolder) -> None:
    (source_folder.folder / "landing-2").mkdir()
    (source_folder.folder / "landing-2/x.csv").write_text("id\n1\n")
    (source_folder.root / "x.csv").symlink_to(source_folder.folder / "landing-2/x.csv")
    assert source_folder.refusal("landing")[0] == "link_refused"


def test_links_inside_are_read_under_their_own_names(source_folder: SourceFolder) -> None:
    source_folder.put("old/2024/a.csv")
    (source_folder.root / "orders/a.csv").symlink_to("../old/2024/a.csv")
    (source_folder.root / "orders/last").symlink_to(source_folder.root / "old/2024")
    assert [file.name for file in source_folder.find("landing/orders")] == ["a.csv", "last/a.csv"]


def test_a_location_may_itself_be_behind_a_link(source_folder: SourceFolder) -> None:
    source_folder.put("a.csv")
    real = source_folder.root.rename(source_folder.folder / "disk")
    source_folder.root.symlink_to(real)
    assert [file.uri for file in source_folder.find("landing/a.csv")] == [f"file://{real}/a.csv"]


def test_a_link_to_a_folder_that_it_is_in_is_refused_and_a_link_to_nothing_too(source_folder: SourceFolder) -> None:
    (source_folder.root / "orders/again").symlink_to("..")
    assert "a folder that contains it" in source_folder.refusal("landing")[1]
    (source_folder.root / "orders/again").unlink()
    (source_folder.root / "orders/gone").symlink_to("nothing")
    assert "a path that does not exist" in source_folder.refusal("landing/orders")[1]


def test_pipes_and_sockets_are_refused_and_never_opened(source_folder: SourceFolder) -> None:
    os.mkfifo(source_folder.root / "orders/pipe.csv")
    for path in ("landing/orders", "landing/orders/pipe.csv"):
        code, message = source_folder.refusal(path)
        assert code == "file_refused"
        assert "landing/orders/pipe.csv" in message
    (source_folder.root / "orders/pipe.csv").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(source_folder.root / "orders/s"))
        assert source_folder.refusal("landing/orders")[0] == "file_refused"


def test_a_name_that_cannot_be_decoded_is_refused_by_its_bytes(source_folder: SourceFolder) -> None:
    (Path(os.fsdecode(os.fsencode(source_folder.root / "orders") + b"/bad\xff.csv"))).write_text("id\n1\n")
    code, message = source_folder.refusal("landing/orders")
    assert code == "file_name"
    assert "landing/orders" in message
    assert "bad" in message
    message.encode()  # it can be sent


def test_hidden_names_are_neither_read_nor_looked_into(source_folder: SourceFolder) -> None:
    (source_folder.root / "_x").symlink_to(source_folder.outside)
    (source_folder.root / ".y.csv").symlink_to(source_folder.outside / "secret.csv")
    assert source_folder.find("landing") == []
    source_folder.put("_z.csv")
    assert source_folder.refusal("landing/_z.csv")[0] == "path_missing"


def test_an_unreadable_folder_is_reported_with_its_path(source_folder: SourceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(source_files.os, "scandir", refuse)  # root may read everything
    code, message = source_folder.refusal("landing/orders")
    assert code == "path_unreadable"
    assert "landing/orders" in message


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_prefix_of_a_store_is_listed_like_a_folder(spark: SparkSession, source_folder: SourceFolder) -> None:
    for name in ("orders/b.csv", "orders/a.csv", "orders/_hidden.csv", "orders-2/c.csv"):
        source_folder.put(name)
    tree = StoredTree(spark, "landing", f"file://{source_folder.root}")
    assert tree.is_folder("") and tree.is_folder("orders") and not tree.is_folder("ord")
    assert sorted(file.path for file in tree.files("orders")) == ["a.csv", "b.csv"]
    assert sorted(file.path for file in tree.files("", "orders-")) == ["orders-2/c.csv"]
    assert tree.find_file("orders/a.csv") is not None


def test_the_tree_of_a_file_location_is_local(source_folder: SourceFolder) -> None:
    assert LocalTree("landing", source_folder.root).uri == f"file://{source_folder.root}"
    assert str(LocationPath.parse("landing/orders/")) == "landing/orders"
