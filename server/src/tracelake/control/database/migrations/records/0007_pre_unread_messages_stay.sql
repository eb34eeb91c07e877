-- What no subscriber may lose is kept by the database itself: places that nobody names, offsets that only follow messages, messages that stay until they are read.
CALL keep_places('metadata_record');
CALL keep_places('bus_message');
REVOKE INSERT ON bus_offset FROM tracelake_execute;
GRANT INSERT (topic, subscriber, holder, held_until) ON bus_offset TO tracelake_execute;  -- a new subscriber starts at the beginning

CREATE FUNCTION check_bus_offset() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (new.xid, new.seq) < (old.xid, old.seq)
        OR NOT EXISTS (SELECT 1 FROM bus_message AS message WHERE message.topic = new.topic AND (message.xid, message.seq) = (new.xid, new.seq))
    THEN
        RAISE EXCEPTION 'an offset moves forward, to a message of its topic' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER follows_messages BEFORE UPDATE ON bus_offset FOR EACH ROW
    WHEN ((old.xid, old.seq) IS DISTINCT FROM (new.xid, new.seq)) EXECUTE FUNCTION check_bus_offset();
ALTER TABLE bus_offset ENABLE ALWAYS TRIGGER follows_messages;

CREATE FUNCTION check_messages_are_read() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone JOIN bus_offset AS place ON place.topic = gone.topic WHERE (gone.xid, gone.seq) > (place.xid, place.seq)) THEN
        RAISE EXCEPTION 'a message stays until every subscriber of its topic has read it' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER stay_until_read AFTER DELETE ON bus_message REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION check_messages_are_read();
ALTER TABLE bus_message ENABLE ALWAYS TRIGGER stay_until_read;
