"""Names: what they stand for, snapshots beside datasets, found at once, and one producer for each."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from support.lakes import BRONZE, Lake
from support.lines import APPENDING
from support.people import begun_and_waiting, user
from support.registries import deploy_reports, deploy_sample, fill

from tracelake.control.access.callers import Caller
from tracelake.control.database.transactions import DatabaseRole
from tracelake.control.registry import store
from tracelake_sdk.dags import Layer
from tracelake_sdk.errors import Forbidden, Invalid, NameTaken, NotFound, TracelakeError


def resolve(lake: Lake, *names: str) -> dict[str, tuple]:
    with lake.control.database.transaction("test") as tx:
        found = store.resolve(tx, lake.admin.org_id, list(names))
    return {one.name: (one.dataset_id, one.dataset_version_id, one.version, one.pinned) for one in found}


def table_of(lake: Lake, name: str) -> tuple:
    [row] = lake.query(
        "SELECT version.dataset_id, version.id FROM dataset_name AS name JOIN dataset_version AS version ON version.dataset_id = name.dataset_id WHERE name = %s", name
    )
    return row


def found(lake: Lake, search: str | None = None, caller: Caller | None = None, **by) -> set[str | None]:
    page = lake.services.explaining.datasets(caller or lake.admin, search=search, **by)
    assert page.next is None
    return {dataset.name for dataset in page.items}


@pytest.mark.proves("T4.6")
def test_a_name_refers_to_the_current_version_and_a_snapshot_to_one_version(lake: Lake):
    deploy_sample(lake)
    assert resolve(lake, "sample_raw", "nothing") == {"sample_raw": (*table_of(lake, "sample_raw"), None, False)}
    fill(lake, 1)
    pinned = lake.services.snapshots.pin(lake.admin, "sample_raw", "raw_then")
    assert (pinned.version, pinned.dataset, pinned.actor) == (1, "sample_raw", "admin")
    fill(lake, 2)
    fill(lake, 3)
    lake.services.snapshots.pin(lake.admin, "sample_raw", "raw_second", version=2)
    table = table_of(lake, "sample_raw")
    assert resolve(lake, "sample_raw", "raw_then", "raw_second", "sample_clean") == {
        "sample_raw": (*table, 3, False),
        "raw_then": (*table, 1, True),
        "raw_second": (*table, 2, True),
        "sample_clean": (*table_of(lake, "sample_clean"), 3, False),
    }
    shown = lake.services.explaining.dataset(lake.admin, "raw_then")
    assert (shown.name, [(snapshot.name, snapshot.version) for snapshot in shown.snapshots]) == ("sample_raw", [("raw_second", 2), ("raw_then", 1)])


@pytest.mark.proves("T4.6", "T5.2")
def test_a_snapshot_does_not_make_a_dataset_queryable_that_is_not_published(lake: Lake):
    deploy_sample(lake)
    fill(lake, 1)
    lake.services.snapshots.pin(lake.admin, "sample_clean", "clean_then")
    dataset, _ = table_of(lake, "sample_clean")
    lake.deploy(APPENDING)  # publishes `sample_raw` alone
    assert resolve(lake, "sample_clean", "clean_then") == {}
    with pytest.raises(Invalid, match="not published"):
        lake.services.snapshots.pin(lake.admin, str(dataset), "clean_now")
    deploy_sample(lake)
    assert set(resolve(lake, "sample_clean", "clean_then")) == {"sample_clean", "clean_then"}


@pytest.mark.proves("T4.6")
def test_a_snapshot_needs_a_version_a_free_name_and_a_reader(lake: Lake):
    deploy_sample(lake)
    pin = lake.services.snapshots.pin
    with pytest.raises(Invalid):
        pin(lake.admin, "sample_raw", "then")
    fill(lake, 1)
    ada, otto = user(lake, "ada", "analysts"), user(lake, "otto", "auditor")
    lake.services.reading.set_read_roles(lake.admin, "sample_raw", ["analysts"])
    assert pin(ada, "sample_raw", "then", dry_run=True).at is None
    assert lake.services.snapshots.list_snapshots(lake.admin) == []
    first = pin(ada, "sample_raw", "then")
    assert pin(ada, "sample_raw", "then", version=1) == first, "the same again changes nothing"
    fill(lake, 2)
    for refused, act in (
        (NameTaken, lambda: pin(ada, "sample_raw", "then")),
        (NameTaken, lambda: pin(ada, "sample_raw", "sample_clean")),
        (NotFound, lambda: pin(ada, "sample_raw", "soon", version=9)),
        (NotFound, lambda: pin(ada, "sample_clean", "soon")),
        (Forbidden, lambda: pin(otto, "sample_raw", "soon")),
        (NotFound, lambda: lake.services.snapshots.unpin(ada, "none")),
    ):
        with pytest.raises(refused):
            act()
    bob = user(lake, "bob", "friends")
    lake.services.reading.set_read_roles(lake.admin, "sample_raw", ["analysts", "friends"])
    with pytest.raises(Forbidden):  # another's name
        lake.services.snapshots.unpin(bob, "then")
    assert lake.services.snapshots.unpin(ada, "then", dry_run=True) == first
    assert lake.services.snapshots.unpin(ada, "then") == first
    assert resolve(lake, "then") == {}
    assert [action for (action,) in lake.query("SELECT action FROM audit WHERE action LIKE '%%pin%%' ORDER BY id")] == ["pin_version", "unpin_version"]


@pytest.mark.proves("T4.1", "T4.6")
def test_datasets_and_snapshots_share_one_namespace(lake: Lake):
    deploy_sample(lake)
    fill(lake, 1)
    lake.services.snapshots.pin(lake.admin, "sample_raw", "sales")
    with pytest.raises(NameTaken):
        deploy_reports(lake)
    assert lake.one("SELECT count(*) FROM dag") == 1
    lake.services.snapshots.unpin(lake.admin, "sales")
    deploy_reports(lake)


@pytest.mark.proves("T4.1")
@pytest.mark.parametrize("first", ["pinned", "published"])
def test_a_name_that_is_pinned_and_published_at_once_is_given_once(lake: Lake, first: str):
    deploy_sample(lake)
    fill(lake, 1)
    raw = lake.one("SELECT dataset_id FROM dataset_name WHERE name = 'sample_raw'")
    org, late = lake.admin.org_id, {"pinned": lambda: deploy_reports(lake), "published": lambda: lake.services.snapshots.pin(lake.admin, "sample_raw", "sales")}
    with ThreadPoolExecutor(1) as pool:
        with lake.control.database.transaction("test", role=DatabaseRole.DEFINE) as tx:
            store.lock_org(tx, org)
            if first == "pinned":
                store.add_snapshot(tx, org=org, name="sales", dataset=raw, version=1, actor="test", user=None, token=None)
            else:
                store.drop_names(tx, org=org, names=["sample_clean"])
                store.name_dataset(tx, org=org, name="sales", dataset=table_of(lake, "sample_clean")[0])
            other = begun_and_waiting(lake, tx, pool, late[first])
        with pytest.raises(TracelakeError) as refused:
            other.result(timeout=30)
    assert refused.value.code == "name_taken"
    assert lake.one("SELECT (SELECT count(*) FROM dataset_name WHERE name = 'sales') + (SELECT count(*) FROM dataset_snapshot WHERE name = 'sales')") == 1


@pytest.mark.proves("T4.4")
def test_a_dataset_has_one_producing_dag(lake: Lake):
    deploy_sample(lake)
    with pytest.raises(NameTaken):
        lake.services.deploys.deploy(lake.admin, BRONZE.format(name="sample", max_attempts=3).replace("name: sample", "name: another"))
    assert lake.one("SELECT count(DISTINCT dag_id) FROM dataset JOIN job_key ON job_key.id = job_key_id") == 1


@pytest.mark.proves("T4.7")
def test_datasets_are_found_by_their_metadata(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1)
    lake.services.snapshots.pin(lake.admin, "sales", "closing_2024")
    assert found(lake) == {"sample_raw", "sample_clean", "sales"}
    for words, names in (
        ("sample_r", {"sample_raw"}),                      # name
        ("FINANCE", {"sales"}),                            # domain
        ("controllers", {"sales"}),                        # owner
        ("gold", {"sales"}),                               # layer
        ("turnover DAY", {"sales"}),                       # description, both words in any order
        ("day turnover", {"sales"}),
        ("turnover bronze", set()),                        # every word must be found
        ("sample/clean", {"sample_clean"}),                # producer
        ("value", {"sample_raw", "sample_clean", "sales"}),  # column
        ("closing", {"sales"}),                            # snapshot
        ("100%", set()),
        ("_", {"sample_raw", "sample_clean", "sales"}),
        ("   ", {"sample_raw", "sample_clean", "sales"}),
    ):
        assert found(lake, words) == names, words
    assert found(lake, layer=Layer.SILVER) == {"sample_clean"}
    assert found(lake, domain="finance") == found(lake, owner="controllers") == found(lake, dag="reports") == {"sales"}
    assert found(lake, "rows", dag="reports") == set()
    assert found(lake, domain="finan") == set()


@pytest.mark.proves("T4.7")
def test_a_search_finds_visible_datasets_page_by_page(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    ada = user(lake, "ada", "analysts")
    for name in ("sales", "sample_raw"):
        lake.services.reading.set_read_roles(lake.admin, name, ["analysts"])
    assert found(lake, "s", ada) == {"sales", "sample_raw"}
    assert found(lake, "sample_clean", ada) == set()
    explaining = lake.services.explaining
    first = explaining.datasets(ada, search="s", limit=1)
    second = explaining.datasets(ada, search="s", limit=1, after=first.items[0].uuid)
    assert first.next is not None
    assert second.next is None
    assert {first.items[0].name, second.items[0].name} == {"sales", "sample_raw"}


@pytest.mark.proves("T4.7")
def test_a_fresh_publish_is_found_at_once_and_a_nested_column_too(lake: Lake):
    deploy_sample(lake)
    assert found(lake, "turnover") == set()
    deploy_reports(lake)
    assert found(lake, "turnover") == {"sales"}
    schema = pa.schema([("id", pa.int64()), ("address", pa.struct([("postcode", pa.string())]))])
    lake.run()
    lake.write(lake.take_one(), [(1, {"postcode": "1010"})], schema=schema, state={"rows": 1})
    assert found(lake, "postcode") == set()
    lake.move()
    assert found(lake, "postcode") == {"sample_raw"}
