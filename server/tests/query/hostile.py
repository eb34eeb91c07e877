"""Statements that must not run, or not for long: the comment above each says what it tries. `{file}` is a file of the lake, `{folder}` a folder to write into."""

REFUSED, INVALID, OVER, MISSING = "query_refused", "query_invalid", "query_over_limit", "not_found"


def _lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line]


# Files of the machine and of the lake, read by any way the engine has
FILES = _lines("""
SELECT * FROM '/etc/passwd'
SELECT * FROM "/etc/passwd"
SELECT * FROM '{file}'
SELECT * FROM "{file}"
SELECT * FROM 'x.csv'
SELECT * FROM "data/*.parquet"
SELECT * FROM 'https://example.com/x.parquet'
SELECT * FROM 's3://bucket/x.parquet'
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_csv_auto('/etc/passwd')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_blob('/proc/self/environ')
SELECT * FROM read_text('/proc/1/environ')
SELECT * FROM read_parquet('{file}')
SELECT * FROM READ_PARQUET('{file}')
SELECT * FROM "read_parquet"('{file}')
SELECT * FROM parquet_scan('{file}')
SELECT * FROM read_parquet(['{file}'])
SELECT * FROM read_json('/etc/passwd')
SELECT * FROM read_json_auto('/etc/passwd')
SELECT * FROM read_ndjson('/etc/passwd')
SELECT * FROM read_json_objects('/etc/passwd')
SELECT * FROM read_duckdb('/tmp/x.db')
SELECT * FROM read_single_csv_file('/etc/passwd')
SELECT * FROM read_single_parquet_file('{file}')
SELECT * FROM glob('/etc/*')
SELECT * FROM glob('{folder}/**')
SELECT * FROM sniff_csv('/etc/passwd')
SELECT * FROM parquet_metadata('{file}')
SELECT * FROM parquet_schema('{file}')
SELECT * FROM parquet_file_metadata('{file}')
SELECT * FROM parquet_full_metadata('{file}')
SELECT * FROM parquet_kv_metadata('{file}')
SELECT * FROM parquet_bloom_probe('{file}', 'id', 1)
SELECT (SELECT content FROM read_text('/etc/passwd'))
SELECT 1 WHERE EXISTS (FROM read_text('/etc/passwd'))
SELECT id FROM orders_raw WHERE country = (SELECT content FROM read_text('/etc/hostname'))
SELECT id FROM orders_raw ORDER BY (SELECT count(*) FROM read_text('/etc/passwd'))
SELECT id FROM orders_raw GROUP BY id HAVING count(*) > (SELECT count(*) FROM glob('/*'))
SELECT sum(id) OVER (ORDER BY (SELECT count(*) FROM glob('/*'))) FROM orders_raw
SELECT CASE WHEN true THEN (SELECT count(*) FROM glob('/*')) END
SELECT list_transform([1], lambda x: (SELECT count(*) FROM glob('/*')))
WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x
WITH x AS (SELECT * FROM '/etc/passwd') SELECT 1
WITH RECURSIVE x AS (SELECT content FROM read_text('/etc/passwd') UNION ALL SELECT content FROM x) SELECT * FROM x
SELECT * FROM orders_raw JOIN read_text('/etc/passwd') ON true
SELECT * FROM orders_raw, LATERAL (SELECT * FROM read_text('/etc/passwd'))
SELECT * FROM orders_raw UNION ALL BY NAME SELECT * FROM read_text('/etc/passwd')
SELECT * FROM (FROM read_text('/etc/passwd'))
FROM read_text('/etc/passwd')
TABLE "/etc/passwd"
SELECT * FROM read_text('/etc/passwd') PIVOT (count(*) FOR filename IN ('a'))
SELECT * FROM orders_raw AT (VERSION => (SELECT count(*) FROM glob('/*')))
SELECT * FROM orders_raw LIMIT (SELECT count(*) FROM glob('/*'))
SELECT * FROM orders_raw TABLESAMPLE reservoir(1 ROWS), read_text('/etc/passwd')
SELECT unnest(x) FROM (SELECT [content] AS x FROM read_text('/etc/passwd'))
SELECT * FROM range((SELECT count(*) FROM glob('/*')))
""")

# The engine's settings, catalogs, secrets and inner life
INSIDE = _lines("""
SELECT current_setting('allowed_paths')
SELECT current_setting('memory_limit')
SELECT getvariable('files_0_0')
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM duckdb_views()
SELECT * FROM duckdb_tables()
SELECT * FROM duckdb_variables()
SELECT * FROM duckdb_functions()
SELECT * FROM duckdb_databases()
SELECT * FROM duckdb_extensions()
SELECT * FROM duckdb_logs()
SELECT * FROM duckdb_memory()
SELECT * FROM duckdb_temporary_files()
SELECT * FROM duckdb_external_file_cache()
SELECT * FROM pragma_version()
SELECT * FROM pragma_platform()
SELECT * FROM pragma_table_info('orders_raw')
SELECT * FROM pragma_storage_info('orders_raw')
SELECT * FROM pragma_show('orders_raw')
SELECT * FROM which_secret('s3://x', 's3')
SELECT * FROM test_all_types()
SELECT * FROM summary(orders_raw)
SELECT * FROM information_schema.tables
SELECT * FROM information_schema.columns
SELECT * FROM pg_catalog.pg_class
SELECT * FROM main.orders_raw
SELECT * FROM temp.orders_raw
SELECT * FROM memory.main.orders_raw
SELECT * FROM system.information_schema.tables
WITH sqlite_master AS (SELECT * FROM sqlite_master) SELECT * FROM sqlite_master
WITH duckdb_views AS (SELECT sql FROM duckdb_views) SELECT * FROM duckdb_views
WITH pg_class AS (SELECT 1) SELECT * FROM pg_class
SELECT version()
SELECT current_query()
SELECT current_database()
SELECT current_schemas(true)
SELECT current_connection_id()
SELECT txid_current()
SELECT stats(id) FROM orders_raw
SELECT nextval('s')
SELECT setseed(0.5)
SELECT pg_get_viewdef(1)
SELECT pg_sleep(1)
SELECT sleep_ms(100)
SELECT get_block_size('memory')
SELECT write_log('x')
SELECT has_table_privilege('x', 'y')
SELECT pg_catalog.version()
SELECT main.sum(id) FROM orders_raw
SELECT error('x')
""")

# Statements made of texts
MADE_OF_TEXTS = _lines("""
SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')
SELECT * FROM query_table('orders_raw')
SELECT * FROM query_table(['orders_raw'])
SELECT json_serialize_sql('SELECT 1')
SELECT json_deserialize_sql(json_serialize_sql('SELECT 1'))
SELECT json_serialize_plan('SELECT 1')
SELECT * FROM json_execute_serialized_sql('{}')
PRAGMA json_execute_serialized_sql('{}')
SELECT * FROM seq_scan('orders_raw')
SELECT * FROM arrow_scan(1, 2, 3)
SELECT * FROM arrow_scan_dumb(1, 2, 3)
SELECT * FROM pandas_scan(1)
SELECT * FROM python_map_function(1)
SELECT * FROM orders_raw WHERE id = $1
SELECT ?
SELECT $name
SELECT invoke(lambda x: x, 1)
""")

# Everything that is not a SELECT
WRITES = _lines("""
INSERT INTO orders_raw VALUES (1)
INSERT INTO orders_raw SELECT * FROM orders_raw
UPDATE orders_raw SET id = 1
DELETE FROM orders_raw
MERGE INTO orders_raw USING customers_raw ON true WHEN MATCHED THEN DELETE
TRUNCATE orders_raw
CREATE TABLE x (id INTEGER)
CREATE TABLE x AS SELECT * FROM orders_raw
CREATE VIEW x AS SELECT 1
CREATE OR REPLACE TEMP VIEW orders_raw AS SELECT 1 AS id
CREATE MACRO f(x) AS x + 1
CREATE FUNCTION f(x) AS x + 1
CREATE SEQUENCE s
CREATE TYPE t AS ENUM ('a')
CREATE SCHEMA s
CREATE SECRET (TYPE s3)
CREATE INDEX i ON orders_raw (id)
DROP VIEW orders_raw
DROP TABLE orders_raw
ALTER TABLE orders_raw ADD COLUMN x INTEGER
COMMENT ON TABLE orders_raw IS 'x'
COPY orders_raw TO '{folder}/out.csv'
COPY (SELECT 1) TO '{file}'
COPY (SELECT 1) TO '{file}' (FORMAT parquet)
COPY (SELECT 1) TO '/dev/stdout'
COPY orders_raw FROM '{file}'
EXPORT DATABASE '{folder}/export'
IMPORT DATABASE '{folder}/export'
ATTACH '{folder}/x.db'
ATTACH '{folder}/x.db' AS y (READ_ONLY)
DETACH memory
USE memory
INSTALL httpfs
LOAD httpfs
LOAD '{folder}/x.duckdb_extension'
FORCE INSTALL httpfs FROM 'http://127.0.0.1/'
SET memory_limit = '100GB'
SET enable_external_access = true
SET allowed_directories = ['/']
SET VARIABLE x = 1
RESET memory_limit
PRAGMA memory_limit = '100GB'
PRAGMA database_list
PRAGMA enable_profiling
PRAGMA table_info('orders_raw')
CALL pragma_version()
CHECKPOINT
FORCE CHECKPOINT
VACUUM
ANALYZE
BEGIN
BEGIN TRANSACTION; SELECT 1
COMMIT
ROLLBACK
EXPLAIN SELECT * FROM orders_raw
EXPLAIN ANALYZE SELECT * FROM orders_raw
PREPARE p AS SELECT 1
EXECUTE p
DEALLOCATE p
DESCRIBE orders_raw
SHOW TABLES
SHOW ALL TABLES
SUMMARIZE orders_raw
SELECT * FROM (DESCRIBE orders_raw)
SELECT * FROM (SHOW TABLES)
SELECT * FROM (SUMMARIZE orders_raw)
WITH x AS (INSERT INTO orders_raw VALUES (1) RETURNING *) SELECT * FROM x
WITH x AS (DELETE FROM orders_raw RETURNING *) SELECT * FROM x
WITH x AS (UPDATE orders_raw SET id = 1 RETURNING *) SELECT * FROM x
PIVOT orders_raw ON country USING sum(amount)
SELECT 1; SELECT 2
SELECT 1; DROP VIEW orders_raw
SELECT 1;;SELECT 2
SELECT 1 /* ; */ ; COPY (SELECT 1) TO '{file}'
""")

# Names: what is not there, not a name, or means something else
NAMES: list[tuple[str, str]] = [
    ("SELECT * FROM nothing_like_it", MISSING),
    ("SELECT * FROM ordes_raw", MISSING),
    ('SELECT * FROM "orders_raw@99"', MISSING),
    ("SELECT * FROM orders_raw AT (VERSION => 99)", MISSING),
    ("SELECT * FROM orders_raw@1", REFUSED),
    ("SELECT * FROM orders_raw @1", REFUSED),
    ("SELECT * FROM orders_raw o, customers_raw@1", REFUSED),
    ("SELECT id@1 FROM orders_raw", REFUSED),
    ("SELECT @id FROM orders_raw", REFUSED),
    ('SELECT * FROM "orders_raw@0"', REFUSED),
    ('SELECT * FROM "orders_raw@-1"', REFUSED),
    ('SELECT * FROM "orders_raw@1@2"', REFUSED),
    ('SELECT * FROM "orders_raw@latest"', REFUSED),
    ('SELECT * FROM "orders_raw@99999999999999999999"', REFUSED),
    ("SELECT * FROM orders_raw AT (VERSION => 1 + 1)", REFUSED),
    ("SELECT * FROM orders_raw AT (TIMESTAMP => now())", REFUSED),
    ("SELECT * FROM orders_raw AT (VERSION => -1)", REFUSED),
    ('SELECT * FROM "orders raw"', REFUSED),
    ('SELECT * FROM ""', INVALID),
    ('SELECT * FROM "órders"', REFUSED),
    ("SELECT * FROM sqlite_master", MISSING),
    ("SELECT * FROM duckdb_tables", MISSING),
    ("SELECT * FROM pg_tables", MISSING),
    ("SELECT missing FROM orders_raw", INVALID),
    ("SELECT id FROM orders_raw WHERE nothing.id = 1", INVALID),
    ("SELECT sum(country) FROM orders_raw", INVALID),
    ("SELECT 'x'::INTEGER", INVALID),
    ("SELEC 1", INVALID),
    ("SELECT", INVALID),
    ("SELECT * FROM", INVALID),
    ("", "malformed"),
    (" ", REFUSED),
    (";", REFUSED),
    ("-- nothing", REFUSED),
    ("/* never closed", INVALID),
    ("SELECT 'never closed", INVALID),
    ("SELECT $$never closed", INVALID),
    ("\x00", "malformed"),
    ("SELECT 1\x00; DROP VIEW orders_raw", "malformed"),
    ("not sql at all", INVALID),
    ("'; DROP TABLE orders_raw; --", INVALID),
]

# Bombs: each harms at most its own engine
DEEP = [
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "(" * 900 + "1" + ")" * 900,
    "SELECT " + "1 + " * 20000 + "1",
    "SELECT " + "NOT " * 20000 + "true",
    "SELECT * FROM " + "(SELECT * FROM " * 2000 + "orders_raw" + ")" * 2000,
    "SELECT " + "[" * 3000 + "1" + "]" * 3000,
    "SELECT " + "CASE WHEN true THEN " * 2000 + "1" + " END" * 2000,
    "SELECT 1" + " UNION ALL SELECT 1" * 5000,
]
BOMBS = [
    "SELECT repeat('x', 1000000000)",
    "SELECT repeat(repeat('x', 30000), 30000)",
    "SELECT list(i) FROM range(1000000000) t(i)",
    "SELECT count(*) FROM range(1000000000000)",
    "SELECT count(*) FROM orders_raw a, orders_raw b, orders_raw c, orders_raw d, orders_raw e, orders_raw f, orders_raw g, orders_raw h",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "SELECT a.i FROM range(3000000) a(i), range(300000) b(i) ORDER BY hash(a.i + b.i)",
    "SELECT string_agg(i::VARCHAR, '') FROM range(1000000000) t(i)",
    "SELECT range(1000000000)",
    "SELECT md5(string_agg(x, '')) FROM (SELECT repeat('y', 1000000) AS x FROM range(1000000))",
    "SELECT count(*) FROM range(10000000000) WHERE regexp_matches(range::VARCHAR, '(1+)+$')",
    "SELECT factorial(1000000000)",
    "SELECT sum(len(lpad('', 100000000, 'x'))) FROM range(100)",
    "SELECT unnest(range(i)) FROM range(100000) t(i) ORDER BY 1 DESC",
]

SQL: list[tuple[str, frozenset[str]]] = [
    *((sql, frozenset({REFUSED})) for sql in (*FILES, *INSIDE, *MADE_OF_TEXTS)),
    *((sql, frozenset({REFUSED, INVALID})) for sql in WRITES),
    *((sql, frozenset({code})) for sql, code in NAMES),
]
