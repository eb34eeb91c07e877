-- Who somebody is in a JWT is said within an org: nobody can take an identity from another org by writing it down first.
ALTER TABLE app_user DROP CONSTRAINT app_user_issuer_subject_key;
ALTER TABLE app_user ADD CONSTRAINT one_user_of_an_identity UNIQUE (org_id, issuer, subject);

REVOKE ALL ON FUNCTION refuse_change FROM PUBLIC;
REVOKE ALL ON PROCEDURE make_append_only FROM PUBLIC;
