-- name: locations
-- As they are now, without those that were removed.
SELECT location.id, location.name, newest.url, newest.revision, newest.actor, newest.at, ARRAY(
    SELECT role.name FROM location_role AS held JOIN role ON role.id = held.role_id WHERE held.location_id = location.id ORDER BY role.name
) AS roles
FROM location
CROSS JOIN LATERAL (
    SELECT url, revision, actor, at FROM location_revision WHERE location_id = location.id ORDER BY revision DESC LIMIT 1
) AS newest
WHERE location.org_id = %(org)s AND newest.url IS NOT NULL
ORDER BY location.name

-- name: name_location
INSERT INTO location (id, org_id, name) VALUES (%(id)s, %(org)s, %(name)s) ON CONFLICT DO NOTHING

-- name: revise
-- Under the org's lock, so that revisions follow each other.
INSERT INTO location_revision (location_id, revision, url, actor)
SELECT location.id, 1 + count(earlier.revision), %(url)s, %(actor)s
FROM location LEFT JOIN location_revision AS earlier ON earlier.location_id = location.id
WHERE location.org_id = %(org)s AND location.name = %(name)s
GROUP BY location.id

-- name: add_role
INSERT INTO location_role (location_id, role_id)
SELECT location.id, %(role)s FROM location WHERE location.org_id = %(org)s AND location.name = %(name)s
ON CONFLICT DO NOTHING

-- name: remove_roles
DELETE FROM location_role AS held USING location, role
WHERE location.id = held.location_id AND role.id = held.role_id AND location.org_id = %(org)s AND location.name = %(name)s
  AND (%(role)s::text IS NULL OR role.name = %(role)s)
