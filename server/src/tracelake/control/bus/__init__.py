"""The bus on Postgres and on Kafka, and what control subscribes to on it."""
