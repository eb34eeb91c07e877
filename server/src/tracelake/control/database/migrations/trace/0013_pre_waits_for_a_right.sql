-- Of its own: a new value of an enum can be used only after its transaction.
ALTER TYPE waits ADD VALUE 'right';         -- whoever activated its DAG may not read an input, or not use a location, that it needs
