-- Of its own: a new value of an enum can be used only after its transaction.
ALTER TYPE waits ADD VALUE 'right';         -- whoever activated its DAG may not read one of its inputs
