-- A message stays until every subscriber of its topic has read it. So only who reads has an offset there: a relay's turn is kept with the relay.
ALTER TABLE relay_offset ALTER COLUMN behind DROP NOT NULL;  -- null: nothing is relayed yet
ALTER TABLE relay_offset ADD COLUMN holder uuid;
ALTER TABLE relay_offset ADD COLUMN held_until timestamptz;
ALTER TABLE relay_offset ADD CONSTRAINT held_means_by_somebody CHECK (held_until IS NULL OR holder IS NOT NULL);
DELETE FROM bus_offset WHERE topic = 'metadata.stored' AND starts_with(subscriber, 'relay ');
GRANT UPDATE (behind, holder, held_until) ON relay_offset TO tracelake_execute;
GRANT DELETE ON bus_offset TO tracelake_define;  -- an operator says that a subscriber is gone

-- What this installation's topics and consumer groups begin with where it shares a broker. Those that were there before have names without it, and keep them.
CREATE TABLE bus_name (
    one boolean PRIMARY KEY DEFAULT true CONSTRAINT there_is_one_bus_name CHECK (one),
    name text NOT NULL
);
INSERT INTO bus_name (name) SELECT CASE WHEN EXISTS (SELECT 1 FROM org) THEN '' ELSE 'tracelake-' || left(gen_random_uuid()::text, 8) END;
GRANT SELECT ON bus_name TO tracelake_execute;
