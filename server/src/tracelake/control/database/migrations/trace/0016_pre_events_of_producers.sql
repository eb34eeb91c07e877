-- What a run caused is found from its task: the events that it emitted, the tasks that these made, and so on.
CREATE INDEX dataset_event_of_producer ON dataset_event (producer_task_id);
