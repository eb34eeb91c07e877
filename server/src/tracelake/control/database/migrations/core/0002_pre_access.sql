CREATE TABLE org (
    id uuid PRIMARY KEY,
    name text NOT NULL UNIQUE CONSTRAINT org_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE app_user (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    name text NOT NULL,
    issuer text NOT NULL,              -- with subject: who this is in a JWT
    subject text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz,
    UNIQUE (issuer, subject),
    UNIQUE (org_id, name)
);

CREATE TABLE role (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    name text NOT NULL,
    UNIQUE (org_id, name)
);

CREATE TABLE role_member (
    role_id uuid NOT NULL REFERENCES role,
    user_id uuid NOT NULL REFERENCES app_user,
    PRIMARY KEY (role_id, user_id)
);

CREATE TYPE token_kind AS ENUM (
    'user',     -- acts with its user's roles
    'service',  -- acts with its scopes
    'worker'    -- claims and completes tasks
);

CREATE TABLE api_token (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    kind token_kind NOT NULL,
    user_id uuid REFERENCES app_user,
    label text NOT NULL,
    sha256 bytea NOT NULL UNIQUE,      -- of 256 random bits; the token itself is nowhere
    scopes text[] NOT NULL DEFAULT '{}',
    pools text[],                      -- of a worker token; null means every pool of the org
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT user_token_has_a_user CHECK ((kind = 'user') = (user_id IS NOT NULL))
);

CREATE TABLE audit (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    actor text NOT NULL,
    action text NOT NULL,
    object text NOT NULL,
    detail jsonb NOT NULL DEFAULT '{}',
    at timestamptz NOT NULL DEFAULT now(),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CALL make_append_only('audit');

GRANT SELECT, INSERT ON org, role TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE (disabled_at, name) ON app_user TO tracelake_execute;
GRANT SELECT, INSERT, DELETE ON role_member TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE (revoked_at, expires_at) ON api_token TO tracelake_execute;
