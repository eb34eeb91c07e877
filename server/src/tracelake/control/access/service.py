"""Authentication and the first start."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from tracelake.control.access import store
from tracelake.control.access.administration import ensure_reserved_roles
from tracelake.control.access.callers import ADMIN, Caller, Permission
from tracelake.control.access.signed_tokens import Issuer, looks_signed, subject_of
from tracelake.control.access.tokens import new_token, token_sha256
from tracelake.control.database.transactions import Database, Transaction
from tracelake.files import write_whole
from tracelake_sdk.access import TokenKind
from tracelake_sdk.bounded_cache import BoundedCache
from tracelake_sdk.errors import Unauthenticated, Unavailable
from tracelake_sdk.home import HomeFiles

_REMEMBERED_SECONDS = 1.0  # how long a process may still accept a revoked token
_MOST_REMEMBERED = 10_000
_MOST_SCRAPERS = 100
SCRAPE_PATIENCE = 3.0  # how long a scrape waits for the database; scrapers time out after ten seconds


@dataclass
class Access:
    """Authenticates callers."""

    database: Database
    issuers: Sequence[Issuer]
    _remembered: BoundedCache[bytes, Caller] = field(default_factory=lambda: BoundedCache(_MOST_REMEMBERED, seconds=_REMEMBERED_SECONDS))
    # Callers that had the permission `metrics` when their token was last looked up.
    _scrapers: BoundedCache[bytes, Caller] = field(default_factory=lambda: BoundedCache(_MOST_SCRAPERS))

    def remembered(self, token: str) -> Caller | None:
        """The cached caller of a token."""
        return self._remembered.find(token_sha256(token))

    def authenticate(self, token: str) -> Caller:
        """The caller of a bearer token; raises Unauthenticated."""
        if (known := self.remembered(token)) is not None:
            return known
        with self.database.transaction("authenticate") as tx:
            return self._look_up(tx, token)

    def recognize_scraper(self, token: str) -> Caller:
        """The same, only for metrics: while the database does not answer, the last known caller of the token."""
        if (known := self.remembered(token)) is not None:
            return known
        key = token_sha256(token)
        try:
            with self.database.looking(patience=SCRAPE_PATIENCE) as tx:
                found = self._look_up(tx, token)
        except Unavailable:
            if (scraper := self._scrapers.find(key)) is None:
                raise
            return scraper
        except Unauthenticated:
            self._scrapers.forget(key)
            raise
        if found.has(Permission.METRICS) and not looks_signed(token):  # a signed token has its own expiry
            self._scrapers.put(key, found)
        return found

    def _look_up(self, tx: Transaction, token: str) -> Caller:
        key = token_sha256(token)
        if looks_signed(token):
            issuer, subject = subject_of(token, self.issuers)
            row = store.caller_of_subject(tx, org=issuer.org, issuer=issuer.name, subject=subject)
        else:
            row = store.caller_of_token(tx, key)
        if row is None:
            raise Unauthenticated("This token is unknown, expired, revoked, or its user is disabled; ask an admin for another.")
        caller = row.caller()
        if not looks_signed(token):  # a signed token has its own expiry, which must be checked each time
            self._remembered.put(key, caller)
        return caller


def first_start(tx: Transaction, home: Path, *, org: str, admin_issuer: str, admin_subject: str) -> bool:
    """Creates the first org with its admin, its worker and their tokens, unless an org exists; returns whether it did.

    The tokens are in the home's credentials file before the transaction that makes them valid commits, so that a
    crash in between leaves tokens that the next start makes valid, and never an org without an admin.
    """
    store.lock_first_start(tx)
    if store.has_org(tx):
        return False
    files = HomeFiles(home)
    admin_token, worker_token = files.admin_token(), files.worker_token()
    if admin_token is None or worker_token is None:
        admin_token, worker_token = new_token(), new_token()
        _keep(files.credentials, {"admin_token": admin_token, "worker_token": worker_token})
    org_id = store.add_org(tx, org)
    ensure_reserved_roles(tx, org_id)
    user = store.add_user(tx, org=org_id, name=admin_subject, issuer=admin_issuer, subject=admin_subject)
    store.add_member(tx, org=org_id, role=ADMIN, user=user)
    store.add_token(tx, org=org_id, kind=TokenKind.USER, user=user, label="first admin", sha256=token_sha256(admin_token))
    store.add_token(tx, org=org_id, kind=TokenKind.WORKER, label="first worker", sha256=token_sha256(worker_token))
    store.append_audit(tx, org=org_id, actor="first start", action="create_org", object=org)
    return True


def ensure_query_token(tx: Transaction, home: Path, *, org: UUID) -> None:
    """Creates a token for this home's query process if it has no valid one: homes of earlier releases lack it, and a revoked token is never restored."""
    files = HomeFiles(home)
    token = files.query_token()
    if token is None or store.caller_of_token(tx, token_sha256(token)) is None:
        token = new_token()
        there = json.loads(files.credentials.read_text()) if files.credentials.exists() else {}
        _keep(files.credentials, there | {"query_token": token})
        store.add_token(tx, org=org, kind=TokenKind.SERVICE, label="query process", sha256=token_sha256(token), scopes=[Permission.PIN.value])


def _keep(path: Path, content: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content))
