-- Of their own: a new value of an enum can be used only after its transaction.
ALTER TYPE waits ADD VALUE 'input';         -- an input has no version yet
ALTER TYPE waits ADD VALUE 'line';          -- its job's line is stopped, full, or reserved for another task
ALTER TYPE trigger_kind ADD VALUE 'batch';  -- a running task posted a finished batch, which this task adopts
