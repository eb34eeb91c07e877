"""The commands of `tracelake admin`: orgs, users, roles, tokens, grants, read roles, locations, and the audit log. A command imports what it needs when it runs."""

from typing import Annotated, Literal
from uuid import UUID

import typer

from tracelake_sdk.cli.options import DryRun, Key, Limit, Output, OutputFormat, Shown, Token

admin_app = typer.Typer(help="Administration: who may do what. For admins.", no_args_is_help=True, rich_markup_mode=None)
orgs_app = typer.Typer(help="Orgs: create, list, disable and enable them. For admins of the first one.", no_args_is_help=True, rich_markup_mode=None)
admin_app.add_typer(orgs_app, name="org")
users_app = typer.Typer(help="Users: create, list, disable and enable them.", no_args_is_help=True, rich_markup_mode=None)
admin_app.add_typer(users_app, name="user")
roles_app = typer.Typer(help="Roles, and who has them.", no_args_is_help=True, rich_markup_mode=None)
admin_app.add_typer(roles_app, name="role")
grants_app = typer.Typer(help="Grants: which roles deploy and trigger a DAG.", no_args_is_help=True, rich_markup_mode=None)
admin_app.add_typer(grants_app, name="grant")
tokens_app = typer.Typer(help="Tokens of users, services and workers.", no_args_is_help=True, rich_markup_mode=None)
admin_app.add_typer(tokens_app, name="token")
read_roles_app = typer.Typer(help="Read roles: which roles read a dataset.", no_args_is_help=True, rich_markup_mode=None)
admin_app.add_typer(read_roles_app, name="read-roles")

locations_app = typer.Typer(help="Locations: the roots that DAGs read files from, and who may use them.", no_args_is_help=True, rich_markup_mode=None)
admin_app.add_typer(locations_app, name="location")

OrgName = Annotated[str, typer.Argument(metavar="ORG", help="The name of the org.")]
UserName = Annotated[str, typer.Argument(metavar="USER", help="The name of the user.")]
RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="The name of the role.")]
DagName = Annotated[str, typer.Argument(metavar="DAG", help="The name of the DAG.")]
RightName = Annotated[Literal["deploy", "trigger"], typer.Argument(metavar="RIGHT", help="deploy, or trigger: run, pause, resume, cancel.")]
LocationName = Annotated[str, typer.Argument(metavar="LOCATION", help="The name of the location: how DAG files name it.")]
LocationUrl = Annotated[str, typer.Argument(metavar="URL", help="A folder (a path, or file:///folder) or a prefix of an object store (s3://bucket/prefix).")]
LocationOrg = Annotated[str | None, typer.Option("--org", metavar="ORG", help="The org of the location. Default: your own.")]
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by its name or uuid.")]


def _json(output: OutputFormat) -> bool:
    return output is OutputFormat.JSON


@orgs_app.command("create")
def create_org(
    name: OrgName,
    admin_name: Annotated[str, typer.Option("--admin", metavar="USER", help="The first admin of the org.")] = "admin",
    issuer: Annotated[str | None, typer.Option("--issuer", help="With --subject: the admin's issuer in a JWT. If omitted, the admin's token is shown.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="With --issuer: the admin's subject in a JWT.")] = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Create an org with its first admin. Orgs are isolated from each other."""
    from tracelake_sdk.cli.actions import admin

    admin.create_org(name, admin=admin_name, issuer=issuer, subject=subject, dry_run=dry_run, as_json=_json(output))


@orgs_app.command("list")
def list_orgs(limit: Limit = 50, token: Token = None, output: Output = Shown) -> None:
    """List orgs."""
    from tracelake_sdk.cli.actions import admin

    admin.list_orgs(limit=limit, token=token, as_json=_json(output))


@orgs_app.command("disable")
def disable_org(name: OrgName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Disable an org. Its users, services and workers are refused; nothing that it has is removed."""
    from tracelake_sdk.cli.actions import admin

    admin.disable_org(name, dry_run=dry_run, as_json=_json(output))


@orgs_app.command("enable")
def enable_org(name: OrgName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Enable a disabled org."""
    from tracelake_sdk.cli.actions import admin

    admin.enable_org(name, dry_run=dry_run, as_json=_json(output))


@users_app.command("create")
def create_user(
    name: UserName,
    role: Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the user. May be repeated.")] = None,
    issuer: Annotated[str | None, typer.Option("--issuer", help="With --subject: the user's issuer in a JWT. If omitted, the user signs in with tokens alone.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="With --issuer: the user's subject in a JWT.")] = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Create a user. Permissions come from roles only."""
    from tracelake_sdk.cli.actions import admin

    admin.create_user(name, roles=role or [], issuer=issuer, subject=subject, dry_run=dry_run, as_json=_json(output))


@users_app.command("list")
def list_users(limit: Limit = 50, token: Token = None, output: Output = Shown) -> None:
    """List users with their roles."""
    from tracelake_sdk.cli.actions import admin

    admin.list_users(limit=limit, token=token, as_json=_json(output))


@users_app.command("disable")
def disable_user(name: UserName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Disable a user. Their tokens are refused, and DAGs that they activated can no longer read datasets of other DAGs."""
    from tracelake_sdk.cli.actions import admin

    admin.disable_user(name, dry_run=dry_run, as_json=_json(output))


@users_app.command("enable")
def enable_user(name: UserName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Enable a disabled user."""
    from tracelake_sdk.cli.actions import admin

    admin.enable_user(name, dry_run=dry_run, as_json=_json(output))


@roles_app.command("create")
def create_role(name: RoleName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Create a role. By itself it has no permissions."""
    from tracelake_sdk.cli.actions import admin

    admin.create_role(name, dry_run=dry_run, as_json=_json(output))


@roles_app.command("list")
def list_roles(output: Output = Shown) -> None:
    """List roles with their members."""
    from tracelake_sdk.cli.actions import admin

    admin.list_roles(as_json=_json(output))


@roles_app.command("add")
def add_member(role: RoleName, user: UserName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Give a role to a user."""
    from tracelake_sdk.cli.actions import admin

    admin.add_member(role, user, dry_run=dry_run, as_json=_json(output))


@roles_app.command("remove")
def remove_member(role: RoleName, user: UserName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Remove a role from a user."""
    from tracelake_sdk.cli.actions import admin

    admin.remove_member(role, user, dry_run=dry_run, as_json=_json(output))


@grants_app.command("add")
def grant(dag: DagName, right: RightName, role: RoleName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Grant a permission on a DAG to a role. It includes reading the DAG's datasets."""
    from tracelake_sdk.cli.actions import admin

    admin.grant(dag, right, role, dry_run=dry_run, as_json=_json(output))


@grants_app.command("remove")
def revoke_grant(
    dag: DagName,
    right: RightName,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Of this role.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="Of the user who created the DAG.")] = None,
    service: Annotated[str | None, typer.Option("--service", metavar="LABEL", help="Of the service that created the DAG.")] = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Revoke a permission on a DAG."""
    from tracelake_sdk.cli.actions import admin

    if [role, user, service].count(None) != 2:
        raise typer.BadParameter("name one holder: --role ROLE, --user USER or --service LABEL", param_hint="RIGHT")
    admin.revoke_grant(dag, right, role=role, user=user, service=service, dry_run=dry_run, as_json=_json(output))


@grants_app.command("list")
def list_grants(dag: Annotated[str | None, typer.Argument(metavar="DAG", help="Only of this DAG.")] = None, output: Output = Shown) -> None:
    """List who has which permission on which DAG. Admins have both on all."""
    from tracelake_sdk.cli.actions import admin

    admin.list_grants(dag, as_json=_json(output))


@tokens_app.command("create")
def create_token(
    label: Annotated[str, typer.Argument(metavar="LABEL", help="What it is for.")],
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="A token of this user, with the user's permissions.")] = None,
    service: Annotated[bool, typer.Option("--service", help="A token of a service, with --scope and --role.")] = False,
    worker: Annotated[bool, typer.Option("--worker", help="A token of a worker, with --pool.")] = False,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="What a service may do: read, operate, deploy, define, records:read, records:write, records:publish, pin. May be repeated."),
    ] = None,
    role: Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the service. May be repeated.")] = None,
    pool: Annotated[list[str] | None, typer.Option("--pool", metavar="POOL", help="Only this pool of workers. May be repeated.")] = None,
    days: Annotated[int | None, typer.Option("--days", min=1, max=3650, help="How many days it is valid. Default: until it is revoked.")] = None,
    key: Key = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Create a token. It is shown only once and is not stored."""
    from tracelake_sdk.cli.actions import admin

    if [user is not None, service, worker].count(True) != 1:
        raise typer.BadParameter("say whose token it is: one of --user USER, --service and --worker", param_hint="LABEL")
    kind = "user" if user is not None else "service" if service else "worker"
    wanted = admin.TokenOptions(kind, label, user, role or [], scope or [], pool or [], days)
    admin.create_token(wanted, key=key, dry_run=dry_run, as_json=_json(output))


@tokens_app.command("list")
def list_tokens(
    revoked: Annotated[bool, typer.Option("--all", help="Include revoked tokens.")] = False,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List tokens with their owners and permissions, never the tokens themselves."""
    from tracelake_sdk.cli.actions import admin

    admin.list_tokens(revoked=revoked, limit=limit, token=token, as_json=_json(output))


@tokens_app.command("revoke")
def revoke_token(
    id: Annotated[UUID, typer.Argument(metavar="ID", help="The id of the token.")], dry_run: DryRun = False, output: Output = Shown
) -> None:
    """Revoke a token. It is refused within a second."""
    from tracelake_sdk.cli.actions import admin

    admin.revoke_token(id, dry_run=dry_run, as_json=_json(output))


@read_roles_app.command("show")
def show_read_roles(dataset: DatasetName, output: Output = Shown) -> None:
    """Show which roles read a dataset."""
    from tracelake_sdk.cli.actions import admin

    admin.show_read_roles(dataset, as_json=_json(output))


@read_roles_app.command("set")
def set_read_roles(
    dataset: DatasetName,
    roles: Annotated[list[str] | None, typer.Argument(metavar="[ROLE]...", help="Exactly these roles. Without any, only those who deploy or trigger its DAG, and admins, read it.")] = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Set which roles read a dataset, besides those who deploy or trigger its DAG and the admins."""
    from tracelake_sdk.cli.actions import admin

    admin.set_read_roles(dataset, roles or [], dry_run=dry_run, as_json=_json(output))


@locations_app.command("list")
def list_locations(output: Output = Shown) -> None:
    """List locations: their roots, and which roles may use them."""
    from tracelake_sdk.cli.actions import admin

    admin.list_locations(as_json=_json(output))


@locations_app.command("add")
def add_location(
    name: LocationName,
    url: LocationUrl,
    role: Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="A role that may use it in a DAG, besides the admins. May be repeated.")] = None,
    org: LocationOrg = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Add a location. For admins of the first org."""
    from tracelake_sdk.cli.actions import admin

    admin.add_location(name, url, role or [], org=org, dry_run=dry_run, as_json=_json(output))


@locations_app.command("set")
def set_location(name: LocationName, url: LocationUrl, org: LocationOrg = None, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Give a location another root. For admins of the first org."""
    from tracelake_sdk.cli.actions import admin

    admin.set_location(name, url, org=org, dry_run=dry_run, as_json=_json(output))


@locations_app.command("remove")
def remove_location(name: LocationName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Remove a location. Tasks that read below it fail from then on."""
    from tracelake_sdk.cli.actions import admin

    admin.remove_location(name, dry_run=dry_run, as_json=_json(output))


@locations_app.command("grant")
def grant_location(name: LocationName, role: RoleName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Allow a role to use a location in its DAGs."""
    from tracelake_sdk.cli.actions import admin

    admin.grant_location(name, role, dry_run=dry_run, as_json=_json(output))


@locations_app.command("revoke")
def revoke_location(name: LocationName, role: RoleName, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Revoke a role's use of a location. DAGs activated by its members can no longer read it, unless another role allows it."""
    from tracelake_sdk.cli.actions import admin

    admin.revoke_location(name, role, dry_run=dry_run, as_json=_json(output))


@admin_app.command("audit")
def list_audit(limit: Limit = 50, token: Token = None, output: Output = Shown) -> None:
    """Show the audit log. For admins and auditors."""
    from tracelake_sdk.cli.actions import admin

    admin.list_audit(limit=limit, token=token, as_json=_json(output))
