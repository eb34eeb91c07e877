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


class Place:
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
        # Nothing of this asks Spark.
        return find_files(None, path, {"landing": self.root.as_uri()})  # pyright: ignore[reportArgumentType]

    def refusal(self, path: str) -> tuple[str, str]:
        with pytest.raises(OperatorFailed) as refused:
            self.find(path)
        message = refused.value.error.message
        assert str(self.folder) not in message, "where a location is, is not said"
        return refused.value.error.error_class, message


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_files_come_in_the_order_of_their_names_with_the_names_that_people_know(place: Place) -> None:
    for name in ("b", "a", "c/d"):
        place.put(f"orders/{name}")
    found = place.find("landing/orders")
    assert [file.name for file in found] == ["a", "b", "c/d"]
    assert [file.shown for file in found] == ["landing/orders/a", "landing/orders/b", "landing/orders/c/d"]
    assert found[2].uri == f"file://{place.root}/orders/c/d"


def test_a_beginning_ends_where_the_location_does(place: Place) -> None:
    place.put("orders-1.csv")
    place.root.rename(place.folder / "landing-of-others")
    assert place.refusal("landing")[0] == "path_missing"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "file:///etc/passwd", "file:/%2e%2e/x", "landing/../outside/secret.csv", "landing/orders/../../outside", "..", "landing//etc", "~/x", "Landing"]
)
def test_a_path_that_is_not_below_a_location_is_refused(place: Place, path: str) -> None:
    assert place.refusal(path)[0] == "location_path_invalid"


def test_encoded_dots_are_a_name(place: Place) -> None:
    assert place.refusal("landing/%2e%2e/outside/secret.csv")[0] == "path_missing"
    place.put("%2e%2e/x.csv")
    assert [file.shown for file in place.find("landing/%2e%2e")] == ["landing/%2e%2e/x.csv"]


def test_a_location_that_the_task_was_not_given_is_refused(place: Place) -> None:
    assert place.refusal("elsewhere/x")[0] == "location_unknown"


@pytest.mark.parametrize("target", ["../../outside/secret.csv", "{outside}/secret.csv"])
@pytest.mark.parametrize("path", ["landing", "landing/orders", "landing/orders/x.csv", "landing/orders/x"])
def test_a_link_to_a_file_outside_is_refused_by_name(place: Place, target: str, path: str) -> None:
    (place.root / "orders/x.csv").symlink_to(target.format(outside=place.outside))
    code, message = place.refusal(path)
    assert code == "link_refused"
    assert "landing/orders/x.csv" in message


@pytest.mark.parametrize("path", ["landing", "landing/in", "landing/in/secret.csv", "landing/in/sec"])
def test_a_link_to_a_folder_outside_is_refused_by_name(place: Place, path: str) -> None:
    (place.root / "in").symlink_to(place.outside)
    code, message = place.refusal(path)
    assert code == "link_refused"
    assert "landing/in" in message


def test_a_link_to_a_link_outside_is_refused(place: Place) -> None:
    (place.root / "_hop").symlink_to(place.outside)
    (place.root / "orders/x").symlink_to("../_hop")
    assert place.refusal("landing/orders")[0] == "link_refused"


def test_a_folder_that_begins_like_the_location_is_outside(place: Place) -> None:
    (place.folder / "landing-2").mkdir()
    (place.folder / "landing-2/x.csv").write_text("id\n1\n")
    (place.root / "x.csv").symlink_to(place.folder / "landing-2/x.csv")
    assert place.refusal("landing")[0] == "link_refused"


def test_links_inside_are_read_under_their_own_names(place: Place) -> None:
    place.put("old/2024/a.csv")
    (place.root / "orders/a.csv").symlink_to("../old/2024/a.csv")
    (place.root / "orders/last").symlink_to(place.root / "old/2024")
    assert [file.name for file in place.find("landing/orders")] == ["a.csv", "last/a.csv"]


def test_a_location_may_itself_be_behind_a_link(place: Place) -> None:
    place.put("a.csv")
    real = place.root.rename(place.folder / "disk")
    place.root.symlink_to(real)
    assert [file.uri for file in place.find("landing/a.csv")] == [f"file://{real}/a.csv"]


def test_a_link_to_a_folder_that_it_is_in_is_refused_and_a_link_to_nothing_too(place: Place) -> None:
    (place.root / "orders/again").symlink_to("..")
    assert "a folder that contains it" in place.refusal("landing")[1]
    (place.root / "orders/again").unlink()
    (place.root / "orders/gone").symlink_to("nothing")
    assert "a path that does not exist" in place.refusal("landing/orders")[1]


def test_pipes_and_sockets_are_refused_and_never_opened(place: Place) -> None:
    os.mkfifo(place.root / "orders/pipe.csv")
    for path in ("landing/orders", "landing/orders/pipe.csv"):
        code, message = place.refusal(path)
        assert code == "file_refused"
        assert "landing/orders/pipe.csv" in message
    (place.root / "orders/pipe.csv").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(place.root / "orders/s"))
        assert place.refusal("landing/orders")[0] == "file_refused"


def test_a_name_that_cannot_be_decoded_is_refused_by_its_bytes(place: Place) -> None:
    (Path(os.fsdecode(os.fsencode(place.root / "orders") + b"/bad\xff.csv"))).write_text("id\n1\n")
    code, message = place.refusal("landing/orders")
    assert code == "file_name"
    assert "landing/orders" in message
    assert "bad" in message
    message.encode()  # it can be sent


def test_hidden_names_are_neither_read_nor_looked_into(place: Place) -> None:
    (place.root / "_x").symlink_to(place.outside)
    (place.root / ".y.csv").symlink_to(place.outside / "secret.csv")
    assert place.find("landing") == []
    place.put("_z.csv")
    assert place.refusal("landing/_z.csv")[0] == "path_missing"


def test_a_folder_that_may_not_be_read_is_said_by_its_path(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(source_files.os, "scandir", refuse)  # root may read everything
    code, message = place.refusal("landing/orders")
    assert code == "path_unreadable"
    assert "landing/orders" in message


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_prefix_of_a_store_is_listed_like_a_folder(spark: SparkSession, place: Place) -> None:
    for name in ("orders/b.csv", "orders/a.csv", "orders/_hidden.csv", "orders-2/c.csv"):
        place.put(name)
    tree = StoredTree(spark, "landing", f"file://{place.root}")
    assert tree.is_folder("") and tree.is_folder("orders") and not tree.is_folder("ord")
    assert sorted(file.path for file in tree.files("orders")) == ["a.csv", "b.csv"]
    assert sorted(file.path for file in tree.files("", "orders-")) == ["orders-2/c.csv"]
    assert tree.find_file("orders/a.csv") is not None


def test_the_tree_of_a_file_location_is_local(place: Place) -> None:
    assert LocalTree("landing", place.root).uri == f"file://{place.root}"
    assert str(LocationPath.parse("landing/orders/")) == "landing/orders"
