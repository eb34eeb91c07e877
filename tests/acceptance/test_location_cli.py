"""`tracelake admin location` as a program, and the same in the SDK, against a real control."""

from pathlib import Path

import pytest
from support.controls import ControlPlane

from tracelake_sdk.client import Client
from tracelake_sdk.errors import NotFound
from tracelake_sdk.home import HomeFiles

from .test_cli import Shell

pytestmark = [pytest.mark.proves("T5.6"), pytest.mark.proves("X.1")]

UNCHANGED = "Nothing was changed.\n"


def test_a_location_is_added_moved_granted_revoked_and_removed(control_plane: ControlPlane, api_url: str, tmp_path: Path) -> None:
    shell = Shell(control_plane.control.settings.home, api_url)
    first, second = tmp_path / "first", tmp_path / "second"

    def named() -> list[tuple[str, str, list[str]]]:
        return [(one["name"], one["url"], one["roles"]) for one in shell.json("admin", "location", "list") if one["name"] == "shop"]

    def each(*words: str) -> str:
        """Tried without effect first, then done; what it says."""
        before = named()
        assert shell("admin", "location", *words, "--dry-run").endswith(UNCHANGED)
        assert named() == before
        return shell("admin", "location", *words)

    assert each("add", "shop", str(first), "--role", "writer").splitlines()[0] == f"Location shop is {first.as_uri()}, usable by the admins and the role writer."
    assert named() == [("shop", first.as_uri(), ["writer"])]
    assert each("set", "shop", str(second)) == f"Location shop is {second.as_uri()} from now on.\n"
    each("revoke", "shop", "writer")
    assert named() == [("shop", second.as_uri(), [])]
    assert each("grant", "shop", "reader") == "Location shop is usable by the admins and the role reader.\n"
    assert "shop" in shell("admin", "location", "list")
    each("remove", "shop")
    assert named() == []
    assert "error [not_found]" in shell("admin", "location", "remove", "shop", code=1)
    # What was only tried is not among it.
    done = [entry["action"] for entry in shell.json("admin", "audit")["items"] if entry["object"] == "shop"]
    assert done[::-1] == [f"{verb}_location" for verb in ("add", "set", "revoke", "grant", "remove")]


def test_the_sdk_walks_the_same_way(control_plane: ControlPlane, api_url: str, tmp_path: Path) -> None:
    url = (tmp_path / "files").as_uri()
    with Client(api_url, HomeFiles(control_plane.control.settings.home).admin_token()) as client:
        assert client.admin.add_location("shop", url, dry_run=True).revision == 1
        assert "shop" not in {one.name for one in client.admin.locations()}
        made = client.admin.add_location("shop", url, roles=["writer"])
        assert (made.url, made.roles, made.revision, made.actor) == (url, ["writer"], 1, "admin")
        assert client.admin.set_location("shop", f"{url}/below").revision == 2
        assert client.admin.grant_location("shop", "reader").roles == ["reader", "writer"]
        assert client.admin.revoke_location("shop", "writer").roles == ["reader"]
        assert client.admin.remove_location("shop").url == f"{url}/below"
        with pytest.raises(NotFound):
            client.admin.grant_location("shop", "reader")
