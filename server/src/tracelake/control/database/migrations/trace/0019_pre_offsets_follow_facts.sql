-- Places of events, runs, rules, decisions and versions are the database's.
CALL keep_places('dataset_event');
CALL keep_places('run_history');
CALL keep_places('quality_rule');
CALL keep_places('policy_rule');
CALL keep_places('promotion_status');
CALL keep_places('quality_result');
CALL keep_places('policy_result');
CALL keep_places('data_version');

-- Moving on is verifying: what is missing among the events that it passes is noted with it, whoever moves it. It moves forward, to an event.
CREATE FUNCTION verify_events() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF new.verified_up_to < old.verified_up_to OR NOT EXISTS (SELECT 1 FROM dataset_event WHERE id = new.verified_up_to) THEN
        RAISE EXCEPTION 'verifying moves forward, to an event' USING ERRCODE = 'restrict_violation';
    END IF;
    -- The ledger's lines are written with their events, and which jobs subscribed at an event's time does not change: verified once is verified for good.
    INSERT INTO unaccounted_event (event_id, generation_id)
    SELECT DISTINCT event.id, job.generation_id
    FROM dataset_event AS event
    JOIN job_input ON job_input.dataset_id = event.dataset_id AND job_input.trigger
    JOIN job ON job.id = job_input.job_id
    JOIN dag_activation AS activation ON activation.dag_version_id = job.dag_version_id AND activation.at <= event.told_at
    WHERE event.id > old.verified_up_to AND event.id <= new.verified_up_to
      AND NOT EXISTS (SELECT 1 FROM event_ledger AS ledger WHERE ledger.event_id = event.id AND ledger.generation_id = job.generation_id)
    ON CONFLICT DO NOTHING;
    RETURN new;
END $$;
CREATE TRIGGER moving_on_verifies BEFORE UPDATE ON event_accounting FOR EACH ROW
    WHEN (old.verified_up_to <> new.verified_up_to) EXECUTE FUNCTION verify_events();
ALTER TABLE event_accounting ENABLE ALWAYS TRIGGER moving_on_verifies;

-- What is emitted is up to a fact that exists. Back is allowed: emitting twice is emitting once.
CREATE FUNCTION check_emission_offset() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NOT (CASE new.stream
        WHEN 'run_history' THEN EXISTS (SELECT 1 FROM run_history WHERE (xid, seq) = (new.xid, new.seq))
        WHEN 'promotion_status' THEN EXISTS (SELECT 1 FROM promotion_status WHERE (xid, seq) = (new.xid, new.seq))
        ELSE false
    END) THEN
        RAISE EXCEPTION 'an offset of emission moves forward only to a fact of its stream' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER follows_facts BEFORE UPDATE ON emission FOR EACH ROW
    WHEN ((new.xid, new.seq) > (old.xid, old.seq)) EXECUTE FUNCTION check_emission_offset();
ALTER TABLE emission ENABLE ALWAYS TRIGGER follows_facts;
