-- Facts are appended and never change. The service's roles get no right to change them; this trigger stops everybody else.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'table % is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

CREATE PROCEDURE make_append_only(appended regclass) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION refuse_change()', appended);
    EXECUTE format('CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', appended);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER append_only', appended);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER append_only_whole', appended);
    EXECUTE format('GRANT SELECT, INSERT ON %s TO tracelake_execute', appended);
END $$;
