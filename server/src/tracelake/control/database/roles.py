"""The five database roles and their privileges.

The owner runs migrations. The service's login role owns nothing and has no privileges: each transaction
becomes `tracelake_execute`; those that decide and record become `tracelake_decide`, and those by which people define
something (a DAG, a rule, a policy) `tracelake_define`.
"""

from collections.abc import Mapping
from typing import Any, LiteralString

from psycopg import Connection, errors
from psycopg.sql import SQL, Identifier, Literal

from tracelake_sdk.errors import MigrationRefused

OWNER = "tracelake_owner"
SERVICE = "tracelake_service"
EXECUTE = "tracelake_execute"
DECIDE = "tracelake_decide"
DEFINE = "tracelake_define"
GROUPS = (EXECUTE, DECIDE, DEFINE)


def prepare_roles(connection: Connection[Any], *, service: str = SERVICE, passwords: Mapping[str, str] | None = None) -> None:
    """Create missing roles, and let the service's login role SET ROLE to the groups without inheriting their privileges.

    `passwords` names the login roles to create, for the embedded Postgres; on an existing server the service's
    login role already exists. If the connection's user lacks privileges, the error contains the SQL for an administrator.
    """
    try:
        with connection.transaction():
            _prepare(connection, service, passwords or {})
    except errors.InsufficientPrivilege as error:
        raise MigrationRefused(
            f"{connection.info.user} may not prepare the roles ({error.diag.message_primary}); let an administrator run: "
            f"{''.join(f'CREATE ROLE {group} NOLOGIN; ' for group in GROUPS)}ALTER ROLE {service} NOINHERIT; "
            f"GRANT {EXECUTE} TO {DECIDE}, {DEFINE}; GRANT {', '.join(GROUPS)} TO {service}{_grant_options(connection)}"
        ) from None


def create_database(connection: Connection[Any], name: str, *, owner: str) -> None:
    """A database with byte order collation, which is the same on every machine."""
    connection.execute(SQL("CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0").format(Identifier(name), Identifier(owner)))


def close_database(connection: Connection[Any], *, service: str = SERVICE) -> None:
    """Revoke the default privileges of PUBLIC in this database, and let the service connect."""
    database = Identifier(connection.info.dbname)
    connection.execute(SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    connection.execute(SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, Identifier(service)))
    connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    for group in GROUPS:
        connection.execute(SQL("GRANT USAGE ON SCHEMA public TO {}").format(Identifier(group)))


def _prepare(connection: Connection[Any], service: str, passwords: Mapping[str, str]) -> None:
    for role in passwords:
        _make(connection, role)
        # Hashed here, so that no statement that the server might log contains a password.
        verifier = connection.pgconn.encrypt_password(passwords[role].encode(), role.encode(), b"scram-sha-256").decode()
        connection.execute(SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(Identifier(role), Literal(verifier)))
    for group in GROUPS:
        _make(connection, group)
    _check_service(connection, service)
    for group in GROUPS:
        if not _may_become(connection, service, group):
            grant = SQL("GRANT {} TO {}" + _grant_options(connection))
            connection.execute(grant.format(Identifier(group), Identifier(service)))
    # The roles that decide or define also execute: a completion writes its runs and its decisions in one transaction.
    for group in (DECIDE, DEFINE):
        if connection.execute("SELECT pg_has_role(%s, %s, 'USAGE')", [group, EXECUTE]).fetchone() != (True,):
            connection.execute(SQL("GRANT {} TO {}").format(Identifier(EXECUTE), Identifier(group)))


def _make(connection: Connection[Any], role: str) -> None:
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        return
    try:
        with connection.transaction():
            connection.execute(SQL("CREATE ROLE {} NOLOGIN").format(Identifier(role)))
    except (errors.DuplicateObject, errors.UniqueViolation):
        pass  # another process created it a moment ago: roles belong to the whole server, locks to one database


def _check_service(connection: Connection[Any], service: str) -> None:
    found = connection.execute("SELECT rolsuper, rolinherit FROM pg_roles WHERE rolname = %s", [service]).fetchone()
    if found is None:
        raise MigrationRefused(f"the service's login role {service} does not exist; create it with LOGIN NOINHERIT and a password")
    superuser, inherits = found
    if superuser:
        raise MigrationRefused(f"the service's login role {service} is a superuser, so append-only tables would not hold; use a plain role in TRACELAKE_DATABASE_URL")
    if inherits:
        connection.execute(SQL("ALTER ROLE {} NOINHERIT").format(Identifier(service)))


def _may_become(connection: Connection[Any], service: str, group: str) -> bool:
    """Whether the service can SET ROLE to the group and does not inherit its privileges."""
    become = "SET" if connection.info.server_version >= 160000 else "MEMBER"
    row = connection.execute("SELECT pg_has_role(%(service)s, %(group)s, %(become)s) AND NOT pg_has_role(%(service)s, %(group)s, 'USAGE')",
                             {"service": service, "group": group, "become": become}).fetchone()
    return bool(row and row[0])


def _grant_options(connection: Connection[Any]) -> LiteralString:
    # Before Postgres 16 this is an attribute of the role, NOINHERIT.
    return " WITH INHERIT FALSE, SET TRUE" if connection.info.server_version >= 160000 else ""
