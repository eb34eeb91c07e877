"""People of a test's org, made as an admin makes them: users with roles, services with scopes, each with a token."""

from support.controls import Desk
from tracelake.control.access.administration import WantedToken
from tracelake.control.access.callers import Caller
from tracelake_sdk.access import TokenKind


def user(desk: Desk, name: str, *roles: str) -> Caller:
    """A user with these roles, as it calls; roles that are not there yet are made."""
    administration = desk.services.administration
    for role in roles:
        administration.create_role(desk.admin, role)
    administration.create_user(desk.admin, name, roles=roles)
    made = administration.create_token(desk.admin, WantedToken(TokenKind.USER, name, user=name))
    return desk.services.access.authenticate(made.token or "")


def service(desk: Desk, label: str, *, scopes: tuple[str, ...], roles: tuple[str, ...] = ()) -> Caller:
    administration = desk.services.administration
    for role in roles:
        administration.create_role(desk.admin, role)
    made = administration.create_token(desk.admin, WantedToken(TokenKind.SERVICE, label, scopes=scopes, roles=roles))
    return desk.services.access.authenticate(made.token or "")


def again(desk: Desk, caller: Caller) -> Caller:
    """The same user with the roles that it has now."""
    [row] = [user for user in desk.services.administration.list_users(desk.admin, limit=1000).items if user.name == caller.name]
    return Caller(caller.org_id, caller.org, caller.kind, caller.name, frozenset(row.roles), user_id=row.id)
