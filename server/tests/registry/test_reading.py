"""Who reads a dataset: those whom its DAG's grants and its read roles let in, and admins; who knows of it: they and auditors."""

import pytest
from support.lakes import Lake
from support.people import again, service, user
from support.registries import deploy_reports, deploy_sample, fill

from tracelake.control.access.callers import Caller
from tracelake.control.dags.granting import Holder
from tracelake.control.registry import reading, store
from tracelake_sdk.access import DagRight
from tracelake_sdk.errors import Forbidden, NotFound
from tracelake_sdk.rules import RuleMeasurement, Severity

DATASETS = ("sales", "sample_clean", "sample_raw")


def readable(lake: Lake, caller: Caller) -> set[str]:
    return _names(lake, caller, reading.readable)


def known(lake: Lake, caller: Caller) -> set[str]:
    """What a caller may know of, by three ways that must agree."""
    seen = _names(lake, caller, reading.visible)
    assert {dataset.name for dataset in lake.services.explaining.datasets(caller).items} == seen
    with lake.control.database.transaction("test") as tx:
        among = reading.all_visible(tx, caller)
    assert among is None or len(among) == len(seen)
    return seen


def _names(lake: Lake, caller: Caller, rule) -> set[str]:
    with lake.control.database.transaction("test") as tx:
        named = {dataset.id: dataset.name for dataset in store.named(tx, org=lake.admin.org_id)}
        return {named[id] for id in rule(tx, caller, list(named))}


@pytest.mark.proves("T5.1")
def test_without_read_roles_only_deployers_triggerers_and_admins_read(lake: Lake):
    wanda = user(lake, "wanda", "writer")
    deploy_sample(lake, wanda)
    lake.deploy("""
name: {name}
defaults: {{domain: test, owner: test, max_attempts: {max_attempts}}}
jobs:
  - {{name: start, activation: source, source: {{kind: manual}}, runtime: dispatcher, operator: noop, outputs: [{{layer: bronze}}]}}
publish: {{sales: {{job: start, output_index: 0}}}}
""", name="reports")
    walter = user(lake, "walter", "night_shift")
    assert readable(lake, wanda) == known(lake, wanda) == {"sample_clean", "sample_raw"}
    assert readable(lake, lake.admin) == known(lake, lake.admin) == set(DATASETS)
    assert readable(lake, user(lake, "rex", "reader")) == set(), "the role `reader` by itself reads nothing"
    assert readable(lake, walter) == set()
    for right in DagRight:
        lake.services.granting.grant(lake.admin, "sample", right, "night_shift")
        assert readable(lake, walter) == {"sample_clean", "sample_raw"}, "either right lets its holder read the DAG's datasets"
        lake.services.granting.revoke(lake.admin, "sample", right, Holder(role="night_shift"))


@pytest.mark.proves("T5.1")
def test_read_roles_add_readers_and_remove_none(lake: Lake):
    wanda = user(lake, "wanda", "writer")
    deploy_sample(lake, wanda)
    deploy_reports(lake)
    ada, bob = user(lake, "ada", "analysts"), user(lake, "bob", "friends")
    set_roles = lake.services.reading.set_read_roles
    assert set_roles(lake.admin, "sales", ["analysts", "friends"]).roles == ["analysts", "friends"]
    assert set_roles(lake.admin, "sample_raw", ["friends"]).dataset == "sample_raw"
    assert (readable(lake, ada), readable(lake, bob)) == ({"sales"}, {"sales", "sample_raw"})
    assert readable(lake, wanda) == {"sample_clean", "sample_raw"}
    set_roles(lake.admin, "sales", [])
    assert (readable(lake, ada), readable(lake, bob)) == (set(), {"sample_raw"})
    lake.services.administration.remove_member(lake.admin, "friends", "bob")
    assert readable(lake, again(lake, bob)) == set()


@pytest.mark.proves("T5.1")
def test_only_admins_change_read_roles_and_it_is_audited(lake: Lake):
    wanda = user(lake, "wanda", "writer", "auditor")
    deploy_sample(lake, wanda)
    for act in (lambda: lake.services.reading.set_read_roles(wanda, "sample_raw", ["writer"]), lambda: lake.services.reading.read_roles(wanda, "sample_raw")):
        with pytest.raises(Forbidden):
            act()
    assert lake.services.reading.set_read_roles(lake.admin, "sample_raw", ["reader"], dry_run=True).roles == ["reader"]
    assert lake.services.reading.read_roles(lake.admin, "sample_raw").roles == []
    lake.services.reading.set_read_roles(lake.admin, "sample_raw", ["reader", "writer"])
    lake.services.reading.set_read_roles(lake.admin, "sample_raw", ["writer", "reader"])
    assert lake.query("SELECT actor, detail FROM audit WHERE action = 'set_read_roles'") == [("admin", {"before": [], "after": ["reader", "writer"]})]
    for wrong in (("nothing", ["reader"]), ("sample_raw", ["nobodys"])):
        with pytest.raises(NotFound):
            lake.services.reading.set_read_roles(lake.admin, *wrong)


@pytest.mark.proves("T5.2")
def test_an_auditor_sees_all_metadata_and_reads_no_row(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    otto = user(lake, "otto", "auditor")
    assert known(lake, otto) == set(DATASETS)
    assert readable(lake, otto) == set()


@pytest.mark.proves("T5.2")
def test_a_service_reads_what_its_roles_read(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    lake.services.administration.create_role(lake.admin, "analysts")
    lake.services.reading.set_read_roles(lake.admin, "sales", ["analysts"])
    assert readable(lake, service(lake, "board", scopes=("read",), roles=("analysts",))) == {"sales"}
    assert readable(lake, service(lake, "nobody", scopes=("read",))) == set()


@pytest.mark.proves("T5.2")
def test_an_invisible_dataset_is_not_found_and_the_nearest_name_is_a_visible_one(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    ada = user(lake, "ada", "analysts")
    lake.services.reading.set_read_roles(lake.admin, "sales", ["analysts"])
    uuid = str(lake.one("SELECT dataset_id FROM dataset_name WHERE name = 'sample_raw'"))
    explaining, guard = lake.services.explaining, lake.services.guard

    def refusals(name: str) -> set[str]:
        said: set[str] = set()
        for ask in (
            lambda: explaining.dataset(ada, name),
            lambda: explaining.versions(ada, name, before=None, limit=10),
            lambda: explaining.version(ada, name, 1),
            lambda: explaining.explain(ada, name),
            lambda: guard.list_rules(ada, dataset=name),
            lambda: guard.promotions(ada, dataset=name),
        ):
            with pytest.raises(NotFound) as refused:
                ask()
            said.add(refused.value.detail.replace(repr(name), "'…'"))
        return said

    [unreadable], [missing] = refusals("sample_raw"), refusals("sample_row")
    assert unreadable == missing, "an unreadable one is reported like a missing one"
    assert refusals(uuid) == refusals("01a1dec1-5595-7316-8138-6f2f0dc5dde6")
    assert refusals("salse") == {"Dataset '…' was not found in this org; did you mean sales?"}
    [detail] = {_detail(lambda: explaining.dataset(lake.admin, "sample_row"))}
    assert detail.endswith("did you mean sample_raw?")


def _detail(ask) -> str:
    with pytest.raises(NotFound) as refused:
        ask()
    return refused.value.detail


@pytest.mark.proves("T5.2")
def test_a_reader_of_a_dataset_does_not_see_its_inputs(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1, 2)
    fill(lake, 3)
    ada, otto = user(lake, "ada", "analysts"), user(lake, "otto", "auditor")
    lake.services.reading.set_read_roles(lake.admin, "sales", ["analysts"])
    explaining = lake.services.explaining
    clean = str(lake.one("SELECT dataset_id FROM dataset_name WHERE name = 'sample_clean'"))
    for caller, sees in ((ada, False), (otto, True), (lake.admin, True)):
        [part] = explaining.version(caller, "sales", 2).parts
        assert ([pin.name for pin in part.inputs], part.hidden_inputs) == ((["sample_clean"], 0) if sees else ([], 1))
        shown = explaining.explain(caller, "sales").model_dump_json() + lake.services.guard.promotions(caller).model_dump_json()
        shown += explaining.versions(caller, "sales", before=None, limit=10).model_dump_json()
        assert ("sample_clean" in shown or clean in shown) is sees


@pytest.mark.proves("T5.2")
def test_samples_and_what_operators_noted_are_for_those_who_read_rows(lake: Lake):
    deploy_sample(lake)
    lake.run()
    rule = lake.services.guard.add_rule(lake.admin, "sample_raw", "NOT_NULL", "value", severity=Severity.WARN)
    [task] = lake.take(1)
    files = [lake.stage(task, [(1, "secret")])]
    found = RuleMeasurement(rule_id=rule.id, revision=1, violations=1, examined=1, samples=["secret"])
    lake.report(task, lake.measured(files, rules=[found]), custom={"note": "secret"}, state={"rows": 1})
    lake.move()
    otto = user(lake, "otto", "auditor")
    for caller, sees in ((lake.admin, True), (otto, False)):
        shown = lake.services.guard.promotions(caller).model_dump_json() + lake.services.explaining.version(caller, "sample_raw", 1).model_dump_json()
        assert ("secret" in shown) is sees


@pytest.mark.proves("T5.2")
def test_events_runs_rules_and_decisions_follow_the_dataset_that_they_are_about(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1)
    for name in DATASETS:
        lake.services.guard.add_rule(lake.admin, name, "NOT_NULL", "id")
    ada, rex = user(lake, "ada", "analysts"), user(lake, "rex", "reader")
    otto = user(lake, "otto", "auditor")
    lake.services.reading.set_read_roles(lake.admin, "sample_clean", ["analysts"])
    views, guard = lake.services.tasks.views, lake.services.guard
    [decided] = [promotion for promotion in guard.promotions(lake.admin).items if promotion.dataset_name == "sample_raw"]
    for caller, names in ((ada, {"sample_clean"}), (rex, set()), (otto, set(DATASETS)), (lake.admin, set(DATASETS))):
        events = views.events(caller, dag=None, job=None, producer=None, limit=50, before=None).items
        assert {event.dataset_name for event in events} == names
        ids = {dataset.uuid for dataset in lake.services.explaining.datasets(caller).items}
        assert {run.dataset_id for run in views.runs(caller, dag=None, job=None, status=None, limit=50, before=None).items} == ids
        assert {rule.dataset_name for rule in guard.list_rules(caller).items} == names
        assert {promotion.dataset_name for promotion in guard.promotions(caller).items} == names
        for which in (str(decided.id), decided.run_id):
            if "sample_raw" in names:
                assert guard.decision(caller, which).id == decided.id
            else:
                with pytest.raises(NotFound):
                    guard.decision(caller, which)
