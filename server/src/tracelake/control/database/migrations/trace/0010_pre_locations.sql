-- Locations: the only places that DAGs read files from. They are data, so that what a DAG means depends on no process and no folder that one was started in.
CREATE TABLE location (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    name text NOT NULL CONSTRAINT location_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,127}$'),
    CONSTRAINT location_is_named_once UNIQUE (org_id, name)
);
CREATE TABLE location_revision (
    location_id uuid NOT NULL REFERENCES location,
    revision integer NOT NULL CONSTRAINT revisions_count_from_one CHECK (revision >= 1),
    url text CONSTRAINT location_is_a_folder_or_a_prefix CHECK (url ~ '^(file:///|s3://[^/])'),  -- NULL: it was removed
    actor text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (location_id, revision)
);
CALL make_definition('location');
CALL make_definition('location_revision');

-- Roles that may use a location in a DAG, beside the role `admin`.
CREATE TABLE location_role (
    location_id uuid NOT NULL REFERENCES location,
    role_id uuid NOT NULL REFERENCES role,
    PRIMARY KEY (location_id, role_id)
);
GRANT SELECT ON location_role TO tracelake_execute;
GRANT INSERT, DELETE ON location_role TO tracelake_define;
