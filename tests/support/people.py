"""People of a test's org, made as an admin makes them: users with roles, services with scopes, each with a token."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from support.controls import ControlPlane
from tracelake.control.access.administration import NewTokenRequest
from tracelake.control.access.callers import Caller
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.access import TokenKind

Done = TypeVar("Done")


def begun_and_waiting(control_plane: ControlPlane, holder: Transaction, pool: ThreadPoolExecutor, act: Callable[[], Done]) -> Future[Done]:
    """Begins an act in another thread; returns when it waits for a lock that the test's transaction holds, and fails if it is done without waiting."""
    holder.value("SELECT 1")  # what was only sent until now has happened
    begun = pool.submit(act)
    deadline = time.monotonic() + 30
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    while not control_plane.one(waiting):
        assert not begun.done(), "it did not wait"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return begun


def user(control_plane: ControlPlane, name: str, *roles: str) -> Caller:
    """A user with these roles, as it calls; roles that are not there yet are made."""
    administration = control_plane.services.administration
    for role in roles:
        administration.create_role(control_plane.admin, role)
    administration.create_user(control_plane.admin, name, roles=roles)
    made = administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.USER, name, user=name))
    return control_plane.services.access.authenticate(made.token or "")


def service(control_plane: ControlPlane, label: str, *, scopes: tuple[str, ...], roles: tuple[str, ...] = ()) -> Caller:
    administration = control_plane.services.administration
    for role in roles:
        administration.create_role(control_plane.admin, role)
    made = administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.SERVICE, label, scopes=scopes, roles=roles))
    return control_plane.services.access.authenticate(made.token or "")


def again(control_plane: ControlPlane, caller: Caller) -> Caller:
    """The same user with the roles that it has now."""
    [row] = [user for user in control_plane.services.administration.list_users(control_plane.admin, limit=1000).items if user.name == caller.name]
    return replace(caller, roles=frozenset(row.roles))
