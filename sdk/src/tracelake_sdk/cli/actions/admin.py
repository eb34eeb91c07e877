"""`admin`: orgs, users, roles, tokens, grants, read roles, locations, and the audit log."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from pydantic import BaseModel
from rich.text import Text

from tracelake_sdk.access import AuditEntry, DagRight, Grant, Org, ReadRoles, Role, Token, TokenKind, User
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, TableColumn, instant, print_json, print_table, say
from tracelake_sdk.client import Client
from tracelake_sdk.dags.locations import Location, absolute_root
from tracelake_sdk.pages import Page
from tracelake_sdk.wording import plural

Item = TypeVar("Item")
_SEEING = {"admin", "auditor"}  # see every dataset


@dataclass(frozen=True)
class TokenOptions:
    kind: str
    label: str
    user: str | None
    roles: list[str]
    scopes: list[str]
    pools: list[str]
    days: int | None


# Orgs
def create_org(name: str, *, admin: str, issuer: str | None, subject: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        made = client.admin.create_org(name, admin=admin, issuer=issuer, subject=subject, dry_run=dry_run)
    sentence = f"Org {made.name} {_is(dry_run)} active, with its admin {made.admin}."
    if as_json or made.token is None:
        _print(made, sentence, dry_run=dry_run, as_json=as_json)
        return
    say(f"{sentence} The admin's token is shown only once:")
    say()
    say(made.token)


def list_orgs(*, limit: int, token: str | None, as_json: bool) -> None:
    with Client() as client:
        page = client.admin.orgs(limit=limit, token=token)
    _print_page(page, [TableColumn("org"), TableColumn("created"), TableColumn("state"), TableColumn("id")], _org_row, ["admin", "org", "list"], limit, as_json=as_json)


def _org_row(org: Org) -> list[Cell]:
    state = Text("disabled", "red") if org.disabled_at else Text("operates" if org.operates else "active", "green")
    return [org.name, instant(org.created_at), state, str(org.id)]


def disable_org(name: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        org = client.admin.disable_org(name, dry_run=dry_run)
    _print(org, f"Org {org.name} {_is(dry_run)} disabled: its users, services and workers are refused; nothing is removed.", dry_run=dry_run, as_json=as_json)


def enable_org(name: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        org = client.admin.enable_org(name, dry_run=dry_run)
    _print(org, f"Org {org.name} {_is(dry_run)} active.", dry_run=dry_run, as_json=as_json)


# Users
def create_user(name: str, *, roles: list[str], issuer: str | None, subject: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        user = client.admin.create_user(name, issuer=issuer, subject=subject, roles=roles, dry_run=dry_run)
    held = f"with {_named(user.roles)}" if user.roles else "without a role, and so without permissions"
    _print(user, f"User {user.name} {_is(dry_run)} active, {held}.", dry_run=dry_run, as_json=as_json)
    if not (dry_run or as_json):
        say("Create a token for this user:")
        say(f"  {again('admin', 'token', 'create', user.name, '--user', user.name)}")
        if user.roles:
            _say_what_is_read(user, user.roles[0])


def list_users(*, limit: int, token: str | None, as_json: bool) -> None:
    columns = [TableColumn("user"), TableColumn("roles", folds=True), TableColumn("created"), TableColumn("state"), TableColumn("issuer"), TableColumn("subject")]
    with Client() as client:
        page = client.admin.users(limit=limit, token=token)
    _print_page(page, columns, _user_row, ["admin", "user", "list"], limit, as_json=as_json)


def _user_row(user: User) -> list[Cell]:
    state = Text("disabled", "red") if user.disabled_at else Text("active", "green")
    return [user.name, ", ".join(user.roles), instant(user.created_at), state, user.issuer, user.subject]


def disable_user(name: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        user = client.admin.disable_user(name, dry_run=dry_run)
    sentence = f"User {user.name} {_is(dry_run)} disabled: their tokens are refused, and DAGs that they activated read neither locations nor datasets of other DAGs."
    _print(user, sentence, dry_run=dry_run, as_json=as_json)


def enable_user(name: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        user = client.admin.enable_user(name, dry_run=dry_run)
    _print(user, f"User {user.name} {_is(dry_run)} active, with {_named(user.roles)}.", dry_run=dry_run, as_json=as_json)


# Roles
def create_role(name: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        role = client.admin.create_role(name, dry_run=dry_run)
    _print(role, f"Role {role.name} {_is(dry_run)} defined.", dry_run=dry_run, as_json=as_json)


def list_roles(*, as_json: bool) -> None:
    with Client() as client:
        roles = client.admin.roles()
    if as_json:
        print_json(roles)
        return
    print_table([TableColumn("role"), TableColumn("kind"), TableColumn("members", folds=True)], [_role_row(role) for role in roles])


def _role_row(role: Role) -> list[Cell]:
    return [role.name, "reserved" if role.reserved else "", ", ".join(role.members)]


def add_member(role: str, user: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        after = client.admin.add_member(role, user, dry_run=dry_run)
    _print_member(after, dry_run=dry_run, as_json=as_json)
    if not (dry_run or as_json):
        _say_what_is_read(after, role)


def remove_member(role: str, user: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        after = client.admin.remove_member(role, user, dry_run=dry_run)
    _print_member(after, dry_run=dry_run, as_json=as_json)


def _print_member(user: User, *, dry_run: bool, as_json: bool) -> None:
    held = _named(user.roles) if user.roles else "no role"
    _print(user, f"User {user.name} {'would have' if dry_run else 'has'} {held}.", dry_run=dry_run, as_json=as_json)


def _say_what_is_read(user: User, role: str) -> None:
    """A role by itself reads nothing, which is surprising for one named `reader`."""
    if not _SEEING & set(user.roles):
        say(f"A role reads only the datasets whose read roles name it. Let {role} read one:")
        say(f"  {again('admin', 'read-roles', 'set', 'DATASET', role)}")


# Tokens
def create_token(wanted: TokenOptions, *, key: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        made = client.admin.create_token(
            TokenKind(wanted.kind),
            wanted.label,
            user=wanted.user,
            roles=wanted.roles,
            scopes=wanted.scopes,
            pools=wanted.pools,
            expires_in_days=wanted.days,
            dry_run=dry_run,
            idempotency_key=key,
        )
    if as_json:
        print_json({"dry_run": dry_run, **made.model_dump(mode="json")})
        return
    may = _may(made)
    if made.token is None:
        say(f"A token {made.label} would be created, {may}. Nothing was changed.")
        return
    say(f"Token {made.id} ({made.label}), {may}. It is shown only once:")
    say()
    say(made.token)


def list_tokens(*, revoked: bool, limit: int, token: str | None, as_json: bool) -> None:
    columns = [TableColumn("token"), TableColumn("label"), TableColumn("permissions", folds=True), TableColumn("created"), TableColumn("expires"), TableColumn("state")]
    with Client() as client:
        page = client.admin.tokens(revoked=revoked, limit=limit, token=token)
    _print_page(page, columns, _token_row, ["admin", "token", "list", *(["--all"] if revoked else [])], limit, as_json=as_json)


def _token_row(token: Token) -> list[Cell]:
    state = Text("revoked", "red") if token.revoked_at else Text("valid", "green")
    return [str(token.id), token.label, _may(token), instant(token.created_at), instant(token.expires_at), state]


def _may(token: Token) -> str:
    match token.kind:
        case TokenKind.USER:
            return f"with the permissions of user {token.user}"
        case TokenKind.SERVICE:
            return f"of a service that may {', '.join(token.scopes)} with {_named(token.roles) if token.roles else 'no role'}"
        case TokenKind.WORKER:
            return f"of a worker of {'pool ' + ', '.join(token.pools) if token.pools else 'every pool'}"


def revoke_token(id: UUID, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        token = client.admin.revoke_token(id, dry_run=dry_run)
    _print(token, f"Token {token.id} ({token.label}) {_is(dry_run)} revoked.", dry_run=dry_run, as_json=as_json)


# Rights on DAGs
def grant(dag: str, right: str, role: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        grants = client.admin.grant(dag, DagRight(right), role, dry_run=dry_run)
    sentence = f"Role {role} {'would hold' if dry_run else 'holds'} the permission {right} on DAG {dag}."
    _print_grants(grants, sentence, dry_run=dry_run, as_json=as_json)


def revoke_grant(dag: str, right: str, *, role: str | None, user: str | None, service: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        grants = client.admin.revoke_grant(dag, DagRight(right), role=role, user=user, service=service, dry_run=dry_run)
    holder = f"Role {role}" if role else f"User {user}" if user else f"Service {service}"
    sentence = f"{holder} {'would no longer hold' if dry_run else 'no longer holds'} the permission {right} on DAG {dag}."
    _print_grants(grants, sentence, dry_run=dry_run, as_json=as_json)


def list_grants(dag: str | None, *, as_json: bool) -> None:
    with Client() as client:
        grants = client.admin.grants(dag=dag)
    if as_json:
        print_json(grants)
    else:
        _print_table_of(grants)


def _print_grants(grants: list[Grant], sentence: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": dry_run, "grants": grants})
        return
    say(sentence + (" Nothing was changed." if dry_run else ""))
    if not dry_run:
        _print_table_of(grants)


def _print_table_of(grants: list[Grant]) -> None:
    rows: list[list[Cell]] = [[grant.dag, grant.right.value, _holder(grant), grant.actor, instant(grant.at)] for grant in grants]
    print_table([TableColumn("dag"), TableColumn("permission"), TableColumn("held by"), TableColumn("granted by"), TableColumn("at")], rows)


def _holder(grant: Grant) -> str:
    return f"role {grant.role}" if grant.role else f"user {grant.user} (creator)" if grant.user else f"service {grant.service} (creator)"


# Read roles
def show_read_roles(dataset: str, *, as_json: bool) -> None:
    with Client() as client:
        found = client.admin.read_roles(dataset)
    _print(found, _readers(dataset, found, dry_run=False), dry_run=None, as_json=as_json)


def set_read_roles(dataset: str, roles: list[str], *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        after = client.admin.set_read_roles(dataset, roles, dry_run=dry_run)
    _print(after, _readers(dataset, after, dry_run=dry_run), dry_run=dry_run, as_json=as_json)


def _readers(dataset: str, found: ReadRoles, *, dry_run: bool) -> str:
    own = "those who deploy or trigger its DAG, and the admins"
    return f"{dataset} {'would be' if dry_run else 'is'} read by {own}{', and by ' + _named(found.roles) if found.roles else ' alone'}."


# Locations
def list_locations(*, as_json: bool) -> None:
    with Client() as client:
        found = client.admin.locations()
    if as_json:
        print_json(found)
        return
    rows: list[list[Cell]] = [[one.name, one.url, ", ".join(["admin", *one.roles]), str(one.revision), one.actor, instant(one.at)] for one in found]
    print_table([TableColumn("location"), TableColumn("root", folds=True), TableColumn("used by", folds=True), TableColumn("revision"), TableColumn("by"), TableColumn("at")], rows)


def add_location(name: str, url: str, roles: list[str], *, org: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        made = client.admin.add_location(name, absolute_root(url, Path.cwd()), roles=roles, org=org, dry_run=dry_run)
    _print(made, f"Location {made.name} {_is(dry_run)} {made.url}, {_users(made)}.", dry_run=dry_run, as_json=as_json)
    if not (dry_run or as_json):
        say(f"In a DAG file: `path: {made.name}/…`")


def set_location(name: str, url: str, *, org: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        after = client.admin.set_location(name, absolute_root(url, Path.cwd()), org=org, dry_run=dry_run)
    _print(after, f"Location {after.name} {_is(dry_run)} {after.url} from now on.", dry_run=dry_run, as_json=as_json)


def remove_location(name: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        gone = client.admin.remove_location(name, dry_run=dry_run)
    sentence = f"Location {gone.name} ({gone.url}) {_is(dry_run)} removed: tasks that read below it fail. If a settings file names it, the next start adds it again."
    _print(gone, sentence, dry_run=dry_run, as_json=as_json)


def grant_location(name: str, role: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        after = client.admin.grant_location(name, role, dry_run=dry_run)
    _print(after, f"Location {after.name} {_is(dry_run)} {_users(after)}.", dry_run=dry_run, as_json=as_json)


def revoke_location(name: str, role: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        after = client.admin.revoke_location(name, role, dry_run=dry_run)
    _print(after, f"Location {after.name} {_is(dry_run)} {_users(after)}.", dry_run=dry_run, as_json=as_json)


def _users(location: Location) -> str:
    return f"usable by the admins and {_named(location.roles)}" if location.roles else "usable by the admins alone"


# Audit log
def list_audit(*, limit: int, token: str | None, as_json: bool) -> None:
    columns = [TableColumn("at"), TableColumn("who"), TableColumn("did"), TableColumn("to what"), TableColumn("detail", folds=True)]
    with Client() as client:
        page = client.admin.audit(limit=limit, token=token)
    _print_page(page, columns, _audit_row, ["admin", "audit"], limit, as_json=as_json)


def _audit_row(entry: AuditEntry) -> list[Cell]:
    return [instant(entry.at), entry.actor, entry.action, entry.object, json.dumps(entry.detail, ensure_ascii=False) if entry.detail else ""]


def _named(roles: Sequence[str]) -> str:
    return f"the {plural(len(roles), 'role')} {', '.join(roles)}"


def _is(dry_run: bool) -> str:
    return "would be" if dry_run else "is"


def _print(model: BaseModel, sentence: str, *, dry_run: bool | None, as_json: bool) -> None:
    if as_json:
        print_json(({} if dry_run is None else {"dry_run": dry_run}) | model.model_dump(mode="json"))
    else:
        say(sentence + (" Nothing was changed." if dry_run else ""))


def _print_page(
    page: Page[Item], columns: Sequence[TableColumn], row: Callable[[Item], Sequence[Cell]], words: Sequence[str], limit: int, *, as_json: bool
) -> None:
    if as_json:
        print_json(page)
        return
    print_table(columns, [row(item) for item in page.items])
    if page.next is not None:
        say()
        say("Next page:")
        say(f"  {again(*words, '--limit', str(limit), '--token', page.next)}")
