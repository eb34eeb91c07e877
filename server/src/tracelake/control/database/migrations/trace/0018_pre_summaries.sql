-- What an attempt changed or left out of what it was given, in sentences for people: counts and names, never values of rows.
ALTER TABLE task_attempt ADD COLUMN summary jsonb NOT NULL DEFAULT '[]';
GRANT UPDATE (summary) ON task_attempt TO tracelake_execute;
