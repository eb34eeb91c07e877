"""A DAG needs permission to use a location: checked at deploy, and at claim with the current permissions of the activator."""

import pytest
from support.lakes import BRONZE, Lake
from support.people import user

from tracelake.control.access.callers import Caller
from tracelake_sdk.errors import Forbidden
from tracelake_sdk.errors.dags import LocationNotAllowed, LocationUnknown
from tracelake_sdk.tasks import Batch

pytestmark = pytest.mark.proves("T3.12")

DAG = BRONZE.format(name="sample", max_attempts=3).replace("path: nowhere", "path: shop/orders")


@pytest.fixture
def wanda(lake: Lake) -> Caller:
    lake.services.locations.add(lake.admin, "shop", "/data/shop", roles=[])
    return user(lake, "wanda", "writer")


def ended(lake: Lake) -> list[tuple[str, str | None]]:
    return lake.query("SELECT task.state::text, attempt.error_class FROM task LEFT JOIN task_attempt AS attempt ON attempt.task_id = task.id ORDER BY task.id")


def test_a_deployer_who_may_not_use_it_is_refused_and_nothing_is_stored(lake: Lake, wanda: Caller):
    with pytest.raises(LocationNotAllowed) as refused:
        lake.services.deploys.deploy(wanda, DAG)
    assert (refused.value.extra["place"], "you have no permission to use the location `shop`" in refused.value.detail) == ("jobs[0].config.path", True)
    with pytest.raises(LocationUnknown) as unknown:
        lake.services.deploys.deploy(wanda, DAG.replace("shop/orders", "shoop/orders"))
    assert "`shop`" not in unknown.value.detail, "what may not be used is not suggested"
    assert lake.one("SELECT count(*) FROM dag") == 0
    lake.services.locations.grant(lake.admin, "shop", "writer")
    assert lake.services.deploys.deploy(wanda, DAG).created


def test_a_caller_without_deploy_permission_learns_nothing_about_locations(lake: Lake, wanda: Caller):
    rita = user(lake, "rita", "reader")
    for text in (DAG, DAG.replace("shop/orders", "shoop/orders")):
        with pytest.raises(Forbidden):
            lake.services.deploys.deploy(rita, text)


def test_a_location_of_another_org_is_unknown(lake: Lake):
    made = lake.services.orgs.create(lake.admin, "other", admin="olga")
    olga = lake.services.access.authenticate(made.token or "")
    with pytest.raises(LocationUnknown):
        lake.services.deploys.deploy(olga, BRONZE.format(name="sample", max_attempts=3))
    lake.services.locations.add(lake.admin, "nowhere", "/data/other", org="other")
    assert lake.services.deploys.deploy(olga, BRONZE.format(name="sample", max_attempts=3)).created


def test_a_claim_carries_the_root_as_it_is_then(lake: Lake, wanda: Caller):
    lake.services.locations.grant(lake.admin, "shop", "writer")
    lake.services.deploys.deploy(wanda, DAG)
    task = lake.run()
    assert lake.fetch(task).locations == {}
    lake.services.locations.set(lake.admin, "shop", "s3://bucket/shop")
    [claimed] = lake.take()
    assert (claimed.payload.locations, claimed.payload.job.config["path"]) == ({"shop": "s3://bucket/shop"}, "shop/orders")


@pytest.mark.parametrize("how", ["grant", "membership", "disabled", "removed"])
def test_a_task_with_a_lapsed_permission_fails_and_goes_to_no_worker(lake: Lake, wanda: Caller, how: str):
    lake.services.locations.grant(lake.admin, "shop", "writer")
    lake.services.deploys.deploy(wanda, DAG)
    match how:
        case "grant":
            lake.services.locations.revoke(lake.admin, "shop", "writer")
        case "membership":
            lake.services.administration.remove_member(lake.admin, "writer", "wanda")
        case "disabled":
            lake.services.administration.disable_user(lake.admin, "wanda")
        case "removed":
            lake.services.locations.remove(lake.admin, "shop")
    lake.run()
    assert lake.take() == []
    assert ended(lake) == [("failed", "location_unknown" if how == "removed" else "location_not_allowed")]
    [(message,)] = lake.query("SELECT error_message FROM run_history WHERE status = 'FAILED'")
    assert "`shop`" in message
    assert "/data/shop" not in message


def test_a_batch_of_an_attempt_that_began_with_the_right_is_adopted_without_it(lake: Lake, wanda: Caller):
    """Else its producer would wait for it until its timeout, and what it has read would be thrown away."""
    lake.services.locations.grant(lake.admin, "shop", "writer")
    lake.services.deploys.deploy(wanda, DAG)
    lake.run()
    producer = lake.take_one()
    file = lake.stage(producer, [(1, "a")])
    lake.services.locations.revoke(lake.admin, "shop", "writer")
    lake.services.tasks.posting.post(lake.worker, [Batch(fence=producer.fence, name="one", output=0, files=[file.path])])
    batch = lake.take_one()
    assert lake.query("SELECT trigger_kind::text FROM task WHERE id = %s", batch.fence.task_id) == [("batch",)]
    assert lake.report(batch, lake.measured([file])).result == "committing"
    lake.run()
    assert lake.take() == [], "the next task lacks the right"


def test_a_user_with_permission_takes_the_dag_over_by_deploying_it_again(lake: Lake, wanda: Caller):
    lake.services.locations.grant(lake.admin, "shop", "writer")
    lake.services.deploys.deploy(wanda, DAG)
    lake.services.locations.revoke(lake.admin, "shop", "writer")
    with pytest.raises(LocationNotAllowed):
        lake.services.deploys.deploy(wanda, DAG)
    assert lake.services.deploys.deploy(lake.admin, DAG).created is False
    lake.services.tasks.pauses.resume(lake.admin, "sample", "load")
    lake.run()
    assert len(lake.take()) == 1
