"""Rules and policies as people define them: by revision, by admins, once for each key, and never unseen."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from support.controls import NOOP
from support.lakes import Lake

from tracelake.control.access.callers import Caller, TokenKind
from tracelake.control.database.transactions import DatabaseRole
from tracelake.control.promotion import store
from tracelake.control.promotion.service import RulesAndPolicies, ensure_default_policies
from tracelake_sdk.dags import Layer
from tracelake_sdk.errors import Forbidden, IdempotencyConflict, NotFound, PolicyInvalid, RuleInvalid
from tracelake_sdk.rules import RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, PolicyType

DATASET = "sample_raw"


def guard_of(lake: Lake) -> RulesAndPolicies:
    return lake.services.guard


def rows_of(lake: Lake, table: str) -> int:
    return lake.one(f"SELECT count(*) FROM {table}")


@pytest.mark.proves("G1.3", "G2.3")
def test_a_rule_changes_by_appending_a_revision(lake: Lake):
    guard = guard_of(lake)
    first = guard.add_rule(lake.admin, DATASET, "RANGE", " id in [0, 10) ")
    assert (first.revision, first.rule_expression, first.severity, first.scope, first.active) == (1, "id in [0, 10)", Severity.FAIL, RuleScope.BATCH, True)
    second = guard.revise_rule(lake.admin, first.id, expression="id >= 0", severity=Severity.WARN)
    assert (second.id, second.revision, second.rule_expression, second.severity) == (first.id, 2, "id >= 0", Severity.WARN)
    third = guard.deactivate_rule(lake.admin, first.id)
    assert (third.revision, third.active) == (3, False)
    assert lake.query("SELECT revision, rule_expression, severity, active, actor FROM quality_rule ORDER BY revision") == [
        (1, "id in [0, 10)", "FAIL", True, "admin"),
        (2, "id >= 0", "WARN", True, "admin"),
        (3, "id >= 0", "WARN", False, "admin"),
    ]
    assert lake.query("SELECT action, object FROM audit WHERE action LIKE '%%_rule' ORDER BY at") == [
        ("add_rule", str(first.id)), ("revise_rule", str(first.id)), ("deactivate_rule", str(first.id)),
    ]  # fmt: skip


def test_only_the_current_revision_of_what_is_active_counts(lake: Lake):
    guard = guard_of(lake)
    kept = guard.add_rule(lake.admin, DATASET, "NOT_NULL", "id")
    revised = guard.revise_rule(lake.admin, guard.add_rule(lake.admin, DATASET, "ROW_COUNT", ">= 1").id, expression=">= 2")
    guard.deactivate_rule(lake.admin, guard.add_rule(lake.admin, DATASET, "UNIQUE", "id").id)
    with lake.services.database.transaction("test") as tx:
        found = store.rules_of(tx, [kept.dataset_id, uuid4()])
        policies = store.send_policies_of(tx, org=lake.admin.org_id, layers=[Layer.BRONZE, Layer.GOLD]).result()
    assert [(row.id, row.revision) for row in found[kept.dataset_id]] == [(kept.id, 1), (revised.id, 2)]
    assert len(found) == 2  # also the one without rules is there
    assert found[kept.dataset_id][1].to_measure().tree.model_dump() == {"type": "ROW_COUNT", "least": 2, "most": None}
    assert {layer: [row.policy_type for row in rows] for layer, rows in policies.items()} == {Layer.BRONZE: ["SCHEMA"], Layer.GOLD: ["SCHEMA"]}
    assert [rule.id for rule in guard.list_rules(lake.admin, dataset=DATASET).items] == [kept.id, revised.id]
    assert len(guard.list_rules(lake.admin, inactive=True).items) == 3


def test_a_revision_without_changes_is_not_stored(lake: Lake):
    guard = guard_of(lake)
    rule = guard.add_rule(lake.admin, DATASET, "NOT_NULL", "id")
    assert guard.revise_rule(lake.admin, rule.id, expression="id", severity=Severity.FAIL) == rule
    off = guard.deactivate_rule(lake.admin, rule.id)
    assert guard.deactivate_rule(lake.admin, rule.id) == off
    again = guard.revise_rule(lake.admin, rule.id)
    assert (again.active, again.revision) == (True, 3)
    assert rows_of(lake, "quality_rule") == 3


def test_a_dry_run_judges_and_stores_nothing(lake: Lake):
    guard = guard_of(lake)
    before = rows_of(lake, "quality_rule"), rows_of(lake, "policy_rule"), rows_of(lake, "audit"), rows_of(lake, "idempotency")
    assert guard.add_rule(lake.admin, DATASET, "NOT_NULL", "id", dry_run=True, idempotency_key="k").revision == 1
    with pytest.raises(RuleInvalid):
        guard.add_rule(lake.admin, DATASET, "NOT_NULL", "", dry_run=True)
    [policy] = guard.list_policies(lake.admin, layer=Layer.BRONZE).items
    assert guard.revise_policy(lake.admin, policy.id, enforcement=Enforcement.ALERT, dry_run=True).revision == 2
    assert guard.deactivate_policy(lake.admin, policy.id, dry_run=True).active is False
    assert (rows_of(lake, "quality_rule"), rows_of(lake, "policy_rule"), rows_of(lake, "audit"), rows_of(lake, "idempotency")) == before


def test_one_key_defines_once_and_other_words_are_a_conflict(lake: Lake):
    guard = guard_of(lake)
    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(guard.add_rule, lake.admin, DATASET, "NOT_NULL", "id", idempotency_key="k") for _ in range(8)]
        assert len({done.result().id for done in made}) == 1
    rule = guard.list_rules(lake.admin).items[0]
    with pytest.raises(IdempotencyConflict):
        guard.add_rule(lake.admin, DATASET, "NOT_NULL", "value", idempotency_key="k")
    warned = guard.revise_rule(lake.admin, rule.id, severity=Severity.WARN, idempotency_key="warn")
    guard.revise_rule(lake.admin, rule.id, severity=Severity.FAIL, idempotency_key="fail")
    # An answer that was lost and asked for again does not undo what came after it.
    assert guard.revise_rule(lake.admin, rule.id, severity=Severity.WARN, idempotency_key="warn").severity is Severity.FAIL
    assert (warned.revision, rows_of(lake, "quality_rule")) == (2, 3)


def test_revisions_at_once_come_one_after_the_other(lake: Lake):
    guard = guard_of(lake)
    rule = guard.add_rule(lake.admin, DATASET, "ROW_COUNT", ">= 0")
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(guard.revise_rule, lake.admin, rule.id, expression=f">= {number}") for number in range(1, 13)]
        assert sorted(one.result().revision for one in done) == list(range(2, 14))


def test_the_same_rule_twice_is_refused_and_named(lake: Lake):
    guard = guard_of(lake)
    rule = guard.add_rule(lake.admin, DATASET, "RANGE", "id in [0, 5]")
    with pytest.raises(RuleInvalid, match=str(rule.id)):
        guard.add_rule(lake.admin, DATASET, "RANGE", 'id in [0,5]', severity=Severity.WARN)
    assert guard.add_rule(lake.admin, DATASET, "RANGE", "id in [0, 5]", scope=RuleScope.TABLE).id != rule.id
    guard.deactivate_rule(lake.admin, rule.id)
    assert guard.add_rule(lake.admin, DATASET, "RANGE", "id in [0, 5]").id != rule.id


def test_a_rule_is_about_a_dataset_of_this_org_that_has_rows(lake: Lake):
    guard = guard_of(lake)
    uuid = lake.one("SELECT dataset_id FROM dataset_name WHERE name = %s", DATASET)
    assert guard.add_rule(lake.admin, str(uuid), "NOT_NULL", "id").dataset_name == DATASET
    for unknown in ("nowhere", str(uuid4()), ""):
        with pytest.raises(NotFound):
            guard.add_rule(lake.admin, unknown, "NOT_NULL", "id")
    lake.deploy(NOOP + "publish: {{emitted: {{job: start, output_index: 0}}}}\n", name="other")
    with pytest.raises(RuleInvalid, match="has events only and no rows"):
        guard.add_rule(lake.admin, "emitted", "NOT_NULL", "id")
    stranger = Caller(uuid4(), "elsewhere", TokenKind.USER, "eve", frozenset({"admin"}))
    with pytest.raises(NotFound):
        guard.add_rule(stranger, DATASET, "NOT_NULL", "id")
    rule = guard.list_rules(lake.admin).items[0]
    for forbidden in (guard.revise_rule, guard.deactivate_rule):
        with pytest.raises(NotFound):
            forbidden(stranger, rule.id)
    assert guard.list_rules(stranger).items == []


def test_the_author_of_a_rule_is_warned_of_missing_columns(lake: Lake):
    guard = guard_of(lake)
    early = guard.add_rule(lake.admin, DATASET, "NOT_NULL", "valeu")
    assert early.absent_columns == []  # nothing was written yet, so nobody can know
    guard.deactivate_rule(lake.admin, early.id)
    lake.run()
    lake.write(lake.take_one(), [(1, "a")])
    lake.move()
    assert guard.revise_rule(lake.admin, early.id, severity=Severity.WARN).absent_columns == ["valeu"]
    assert guard.revise_rule(lake.admin, early.id, expression="value").absent_columns == []
    assert guard.add_rule(lake.admin, DATASET, "UNIQUE", "id, ID, day", dry_run=True).absent_columns == ["ID", "day"]
    assert guard.add_rule(lake.admin, DATASET, "ROW_COUNT", ">= 1").absent_columns == []
    later = guard.add_rule(lake.admin, DATASET, "NOT_NULL", "day")
    assert later.absent_columns == ["day"]
    assert guard.deactivate_rule(lake.admin, later.id).absent_columns == []


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize(
    ("kind", "roles", "scopes", "may"),
    [
        (TokenKind.USER, {"admin"}, set(), True),
        (TokenKind.USER, {"writer", "reader", "auditor"}, set(), False),
        (TokenKind.SERVICE, set(), {"read", "operate", "deploy"}, False),
        (TokenKind.SERVICE, set(), {"define"}, True),
        (TokenKind.WORKER, set(), set(), False),
    ],
)
def test_defining_is_an_admins_act(lake: Lake, kind: TokenKind, roles: set[str], scopes: set[str], may: bool):
    guard = guard_of(lake)
    rule, policy = guard.add_rule(lake.admin, DATASET, "NOT_NULL", "id"), guard.list_policies(lake.admin).items[0]
    caller = Caller(lake.admin.org_id, lake.admin.org, kind, "somebody", frozenset(roles), frozenset(scopes))
    acts = [
        lambda: guard.add_rule(caller, DATASET, "NOT_NULL", "value"),
        lambda: guard.revise_rule(caller, rule.id, severity=Severity.WARN),
        lambda: guard.deactivate_rule(caller, rule.id),
        lambda: guard.deactivate_policy(caller, policy.id),
        lambda: guard.revise_policy(caller, policy.id, enforcement=Enforcement.ALERT),
        lambda: guard.add_policy(caller, Layer.BRONZE, "SCHEMA", "no breaking change", dry_run=True),
    ]
    for act in acts[:-1] if may else acts:
        if may:
            assert act().actor == "somebody"
        else:
            with pytest.raises(Forbidden):
                act()


@pytest.mark.proves("G2.4")
def test_every_layer_has_a_policy_from_the_first_start(lake: Lake):
    guard = guard_of(lake)
    found = guard.list_policies(lake.admin).items
    assert {(policy.applies_to_layer, policy.policy_type, policy.enforcement) for policy in found} == {
        (layer, PolicyType.SCHEMA, Enforcement.BLOCK) for layer in Layer
    }
    guard.deactivate_policy(lake.admin, found[0].id)
    with lake.services.database.transaction("test", role=DatabaseRole.DEFINE) as tx:
        ensure_default_policies(tx, org=lake.admin.org_id, actor="again")
    assert [policy.id for policy in guard.list_policies(lake.admin).items] == [policy.id for policy in found[1:]]  # off stays off


def test_a_policy_changes_by_appending_a_revision(lake: Lake):
    guard = guard_of(lake)
    [policy] = guard.list_policies(lake.admin, layer=Layer.SILVER).items
    with pytest.raises(PolicyInvalid, match=str(policy.id)):
        guard.add_policy(lake.admin, Layer.SILVER, "SCHEMA", "no breaking change", enforcement=Enforcement.ALERT)
    revised = guard.revise_policy(lake.admin, policy.id, enforcement=Enforcement.ALERT, idempotency_key="k")
    assert (revised.revision, revised.enforcement) == (2, Enforcement.ALERT)
    guard.deactivate_policy(lake.admin, policy.id)
    assert guard.revise_policy(lake.admin, policy.id, enforcement=Enforcement.ALERT, idempotency_key="k").active is False  # only the answer again
    assert guard.add_policy(lake.admin, Layer.SILVER, "SCHEMA", "NO BREAKING CHANGE").policy_expression == "no breaking change"
    with pytest.raises(PolicyInvalid):
        guard.add_policy(lake.admin, Layer.SILVER, "PII", "none")
    with pytest.raises(NotFound):
        guard.revise_policy(lake.admin, UUID(int=1))


def test_lists_come_in_pages(lake: Lake):
    guard = guard_of(lake)
    made = [guard.add_rule(lake.admin, DATASET, "ROW_COUNT", f">= {number}").id for number in range(5)]
    first = guard.list_rules(lake.admin, limit=3)
    assert first.next is not None
    rest = guard.list_rules(lake.admin, limit=3, after=UUID(first.next))
    assert [rule.id for rule in first.items + rest.items] == made
    assert rest.next is None
