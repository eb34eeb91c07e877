-- Who works in a disabled org is let in no more; nothing of it is removed.
ALTER TABLE org ADD COLUMN disabled_at timestamptz;
-- Its admins are the installation's operators: they make and disable orgs. The first org is it, for good.
ALTER TABLE org ADD COLUMN operates boolean NOT NULL DEFAULT false;
UPDATE org SET operates = true WHERE id = (SELECT id FROM org ORDER BY created_at, id LIMIT 1);
CREATE UNIQUE INDEX one_org_operates ON org (operates) WHERE operates;
ALTER TABLE org ADD CONSTRAINT the_operating_org_is_not_disabled CHECK (NOT operates OR disabled_at IS NULL);
GRANT UPDATE (disabled_at) ON org TO tracelake_define;
