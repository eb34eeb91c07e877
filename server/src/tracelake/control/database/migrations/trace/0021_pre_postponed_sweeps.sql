-- An attempt that could not be swept is left alone until then, so that it keeps no other from being swept.
ALTER TABLE task_attempt ADD COLUMN sweep_not_before timestamptz;
GRANT UPDATE (sweep_not_before) ON task_attempt TO tracelake_execute;
