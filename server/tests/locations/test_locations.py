"""Locations are defined by operators, granted by admins, and change by appending."""

from pathlib import Path

import psycopg
import pytest
from support.controls import ControlPlane, running_control, settings_for
from support.databases import StateDatabase
from support.people import again, service, user

from tracelake.control.access.callers import Caller
from tracelake.control.locations import store
from tracelake.control.locations.permissions import usable_locations
from tracelake.control.locations.service import Locations
from tracelake_sdk.dags.locations import LocationPath, canonical_url
from tracelake_sdk.errors import Forbidden, LocationConflict, LocationRefused, NotFound, SettingInvalid

pytestmark = pytest.mark.proves("T3.12")


@pytest.fixture
def locations(control_plane: ControlPlane) -> Locations:
    return control_plane.services.locations


def audited(control_plane: ControlPlane) -> list[tuple[str, str]]:
    return control_plane.query("SELECT actor, action FROM audit WHERE action LIKE '%%location' ORDER BY id")


def test_a_location_is_added_moved_granted_and_removed_and_each_is_audited_once(control_plane: ControlPlane, locations: Locations):
    before = len(audited(control_plane))
    for dry_run in (True, False, False):
        added = locations.add(control_plane.admin, "shop", "/data/shop/", roles=["writer"], dry_run=dry_run)
        assert (added.url, added.roles, added.revision) == ("file:///data/shop", ["writer"], 1)
    for dry_run in (True, False, False):
        moved = locations.set(control_plane.admin, "shop", "s3://bucket/shop/", dry_run=dry_run)
        assert moved.url == "s3://bucket/shop"
    assert moved.revision == 2
    for dry_run in (True, False, False):
        assert locations.grant(control_plane.admin, "shop", "reader", dry_run=dry_run).roles == ["reader", "writer"]
    for dry_run in (True, False, False):
        assert locations.revoke(control_plane.admin, "shop", "writer", dry_run=dry_run).roles == ["reader"]
    assert locations.remove(control_plane.admin, "shop", dry_run=True).name == "shop"
    assert locations.remove(control_plane.admin, "shop").roles == ["reader"]
    assert [action for _, action in audited(control_plane)][before:] == ["add_location", "set_location", "grant_location", "revoke_location", "remove_location"]
    assert "shop" not in {one.name for one in locations.list_locations(control_plane.admin)}
    again_there = locations.add(control_plane.admin, "shop", "/data/shop")
    assert (again_there.roles, again_there.revision) == ([], 4), "a grant does not outlive its location"


def test_one_that_exists_with_other_facts_is_never_changed_by_adding_it(control_plane: ControlPlane, locations: Locations):
    locations.add(control_plane.admin, "shop", "/data/shop")
    with pytest.raises(LocationConflict, match=r"file:///data/shop .*tracelake admin location set shop URL"):
        locations.add(control_plane.admin, "shop", "/data/other")
    with pytest.raises(LocationConflict):
        locations.add(control_plane.admin, "shop", "/data/shop", roles=["writer"])
    for act in (lambda: locations.set(control_plane.admin, "shoop", "/x"), lambda: locations.remove(control_plane.admin, "shoop"), lambda: locations.grant(control_plane.admin, "shoop", "writer")):
        with pytest.raises(NotFound, match="did you mean shop"):
            act()
    with pytest.raises(NotFound, match="nobody"):
        locations.grant(control_plane.admin, "shop", "nobody")


@pytest.mark.parametrize("url", ["data", "./data", "ftp://x/y", "file://host/data", "file:data", "s3://", "s3:///x", "s3://b/a/../c", "s3://b//c", "/data/../etc", "file:///a/%2e%2e/b", "/x\0y", "s3://b/x?y=1", "~"])
def test_a_root_is_an_absolute_folder_or_a_prefix(control_plane: ControlPlane, locations: Locations, url: str):
    with pytest.raises(LocationRefused):
        locations.add(control_plane.admin, "shop", url)


@pytest.mark.parametrize("root", ["", "/lake", "/logs/x", "/..", "link", "link/lake"])
def test_a_root_in_or_around_the_home_is_refused(control_plane: ControlPlane, locations: Locations, root: str, tmp_path: Path):
    home = control_plane.control.settings.home
    (tmp_path / "link").symlink_to(home)
    wanted = home.parent if root == "/.." else tmp_path / root if root.startswith("link") else Path(f"{home}{root}")
    for url in (str(wanted), wanted.as_uri()):
        with pytest.raises(LocationRefused, match="in or around the home"):
            locations.add(control_plane.admin, "shop", url)
        locations.set(control_plane.admin, "nowhere", "/nowhere")
        with pytest.raises(LocationRefused):
            locations.set(control_plane.admin, "nowhere", url)
    with pytest.raises(LocationRefused):
        locations.add(control_plane.admin, "shop", "/")


def test_only_admins_define_and_only_those_of_the_first_org_say_where(control_plane: ControlPlane, locations: Locations):
    wanda = user(control_plane, "wanda", "writer", "auditor")
    robot = service(control_plane, "robot", scopes=("read", "operate", "deploy", "define"), roles=("writer",))
    for caller in (wanda, robot):
        for act in (
            lambda caller=caller: locations.add(caller, "mine", "/etc"), lambda caller=caller: locations.set(caller, "nowhere", "/etc"), lambda caller=caller: locations.list_locations(caller),
            lambda caller=caller: locations.grant(caller, "nowhere", "writer"), lambda caller=caller: locations.remove(caller, "nowhere"), lambda caller=caller: locations.revoke(caller, "nowhere", "writer"),
        ):
            with pytest.raises(Forbidden):
                act()
    other = _admin_of(control_plane, "other")
    locations.add(control_plane.admin, "shop", "/data/shop")
    with pytest.raises(Forbidden, match="operators"):
        locations.add(other, "shop", "/data/shop")
    assert locations.list_locations(other) == []
    locations.add(control_plane.admin, "shared", "/data/other", org="other")
    assert [(one.name, one.actor) for one in locations.list_locations(other)] == [("shared", "main/admin")]
    with pytest.raises(Forbidden):
        locations.set(other, "shared", "/data/shop")
    assert locations.grant(other, "shared", "writer").roles == ["writer"]
    assert "shared" not in {one.name for one in locations.list_locations(control_plane.admin)}
    with pytest.raises(NotFound, match="nobody"):
        locations.add(control_plane.admin, "x", "/x", org="nobody")


def _admin_of(control_plane: ControlPlane, org: str) -> Caller:
    made = control_plane.services.orgs.create(control_plane.admin, org, admin="olga")
    return control_plane.services.access.authenticate(made.token or "")


def test_definitions_are_appended_by_the_defining_role_alone(control_plane: ControlPlane, locations: Locations):
    locations.add(control_plane.admin, "shop", "/data/shop")
    for change in ("UPDATE location_revision SET url = 'file:///etc'", "DELETE FROM location_revision", "UPDATE location SET name = 'x'", "DELETE FROM location", "TRUNCATE location CASCADE"):
        with pytest.raises(psycopg.errors.RestrictViolation):
            control_plane.query(change)
    insert = "INSERT INTO location_revision SELECT id, 9, 'file:///etc', 'x' FROM location"
    for statement in (insert, "INSERT INTO location_role SELECT location.id, role.id FROM location, role", "DELETE FROM location_role"):
        with psycopg.connect(control_plane.database.superuser_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SET ROLE tracelake_execute")
            connection.execute(statement)


def test_settings_define_what_is_missing_and_change_nothing(database: StateDatabase, tmp_path: Path):
    def start(**given: object) -> None:
        with running_control(settings_for(database, tmp_path / "home", locations=given), database) as control_plane:
            found.append({one.name: (one.url, one.roles) for one in control_plane.services.locations.list_locations(control_plane.admin)})

    found: list[dict[str, tuple[str, list[str]]]] = []
    start(landing={"url": "/data/landing", "roles": ["writer"]})
    start(landing="/data/landing", other="s3://bucket/x")
    assert found[-1] == {"landing": ("file:///data/landing", ["writer"]), "other": ("s3://bucket/x", [])}
    with pytest.raises(LocationConflict) as refused:
        start(landing="/elsewhere/landing", new="/data/new")
    assert all(word in refused.value.detail for word in ("landing", "file:///data/landing", "file:///elsewhere/landing", "tracelake admin location set landing", "TRACELAKE_HOME"))
    with pytest.raises(LocationRefused):
        start(mine=str(tmp_path))
    with pytest.raises(SettingInvalid, match="nobody"):
        start(mine={"url": "/mine", "roles": ["nobody"]})
    start()
    assert found[-1] == {"landing": ("file:///data/landing", ["writer"]), "other": ("s3://bucket/x", [])}, "a start that is refused defines nothing"


def test_a_location_in_the_lakes_own_prefix_is_refused_by_whole_segments(database: StateDatabase, tmp_path: Path):
    settings = settings_for(database, tmp_path / "home", storage={"url": "s3://bucket/lake", "access_key_id": "x", "secret_access_key": "y"})
    with running_control(settings, database) as control_plane:
        for url in ("s3://bucket/lake", "s3://bucket/lake/org", "s3://bucket"):
            with pytest.raises(LocationRefused, match="the lake"):
                control_plane.services.locations.add(control_plane.admin, "shop", url)
        for name, url in {"shop": "s3://bucket/lake-landing", "pub": "s3://bucket2/lake"}.items():
            assert control_plane.services.locations.add(control_plane.admin, name, url).url == url


def test_paths_and_urls_have_one_spelling() -> None:
    assert str(LocationPath.parse("landing/orders/")) == "landing/orders"
    assert canonical_url("/a b/./c//d/") == canonical_url("file:///a%20b/c/d") == "file:///a%20b/c/d"
    assert canonical_url("s3://bucket/") == "s3://bucket"


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/lake/../x", "s3://Bucket/x", "s3://bucket@other/x", "s3://key:secret@bucket/x", "s3://bucket:80/x", "s3:///x", "s3:bucket/x", "s3a://bucket/lake",
        "s3://bucket\u3002other/x", "s3://bucket/x?versionId=1", "s3://bucket/lake*", "file:///a/%2e%2e/b", "file://localhost//etc/../x", "file:///a%00b", "file://other/a",
    ],
)  # fmt: skip
def test_a_url_with_another_meaning_than_its_words_is_not_a_valid_root(url: str):
    with pytest.raises(ValueError, match=r"location|write"):
        canonical_url(url)


@pytest.mark.parametrize("bucket", ["b", "bb", "b" * 64])
def test_a_bucket_name_of_the_wrong_length_is_refused_with_the_right_one(bucket: str):
    assert canonical_url("s3://bbb/p") == "s3://bbb/p"
    with pytest.raises(ValueError, match="a bucket name has 3 to 63 characters"):
        canonical_url(f"s3://{bucket}/p")


def test_what_looks_like_a_way_up_is_refused_or_a_plain_name() -> None:
    for path in ("landing/..", "landing/./x", "landing//x", "landing\\..\\x", "LANDING/x", "\uff4canding/x", "landing:x/y", "s3a:x", "hdfs:/x", "landing/x\0"):
        with pytest.raises(ValueError, match=r"it |this "):
            LocationPath.parse(path)
    # Nobody decodes or normalizes them later: they are names of files below the location.
    for name in ("%2e%2e", "\uff0e\uff0e", "..\u200b", "..;", "\u2025", " .."):
        assert LocationPath.parse(f"landing/{name}/x").below == f"{name}/x"
    for spelled, url in {"s3://bucket/lakeEvil": "s3://bucket/lakeEvil", "s3://bucket/l%61ke": "s3://bucket/l%61ke", "S3://bucket/la\nke": "s3://bucket/lake"}.items():
        assert canonical_url(spelled) == url  # what is compared with the lake is what is opened


def test_a_user_who_leaves_a_role_may_not_use_its_locations(control_plane: ControlPlane, locations: Locations):
    wanda = user(control_plane, "wanda", "writer")
    with control_plane.services.database.transaction("test") as tx:
        rows = store.locations(tx, control_plane.admin.org_id)
    assert usable_locations(wanda, rows) == usable_locations(control_plane.admin, rows) == {"landing", "nowhere"}
    control_plane.services.administration.remove_member(control_plane.admin, "writer", "wanda")
    assert usable_locations(again(control_plane, wanda), rows) == set()
