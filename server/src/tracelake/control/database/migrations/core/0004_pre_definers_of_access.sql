-- Who may do what is an admin's act, like every other definition: the executing side reads it and changes nothing of it.
REVOKE INSERT ON org, role, app_user, role_member, api_token FROM tracelake_execute;
REVOKE UPDATE (disabled_at, name) ON app_user FROM tracelake_execute;
REVOKE UPDATE (revoked_at, expires_at) ON api_token FROM tracelake_execute;
REVOKE DELETE ON role_member FROM tracelake_execute;
GRANT INSERT ON org, role, app_user, role_member, api_token TO tracelake_define;
GRANT UPDATE (disabled_at) ON app_user TO tracelake_define;
GRANT UPDATE (revoked_at) ON api_token TO tracelake_define;
GRANT DELETE ON role_member TO tracelake_define;

ALTER TABLE role ADD CONSTRAINT role_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$');

-- A service does what its token's scopes say, on what these roles reach.
CREATE TABLE token_role (
    token_id uuid NOT NULL REFERENCES api_token,
    role_id uuid NOT NULL REFERENCES role,
    PRIMARY KEY (token_id, role_id)
);
GRANT SELECT ON token_role TO tracelake_execute;
GRANT INSERT ON token_role TO tracelake_define;

CREATE INDEX role_member_of_user ON role_member (user_id);
CREATE INDEX audit_of_org ON audit (org_id, id);
