-- Which scopes of a table are the oldest: whether they are behind their inputs is asked from there on.
CREATE INDEX scope_state_by_place ON scope_state (dataset_version_id, place);
