"""Statements that the operator `sql` must not run. `{folder}` is a folder that must stay as it is, `{secret}` a text file, `{parquet}` a Parquet file nobody gave."""

REFUSED = frozenset({"sql_refused"})
REFUSED_OR_INVALID = frozenset({"sql_refused", "sql_invalid"})


def _lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line]


# Folders and tables written
WRITES = _lines("""
INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT * FROM input_0
INSERT OVERWRITE DIRECTORY 'file://{folder}' USING csv SELECT 1
INSERT OVERWRITE LOCAL DIRECTORY '{folder}' STORED AS TEXTFILE SELECT 'x'
INSERT OVERWRITE LOCAL DIRECTORY '{folder}' ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' SELECT 'x'
INSERT OVERWRITE DIRECTORY USING parquet OPTIONS ('path' '{folder}') SELECT 1
insert overwrite directory '{folder}' using json select 1
INSERT OVERWRITE DIRECTORY 's3a://lake/orders' USING parquet SELECT 1
INSERT OVERWRITE DIRECTORY 's3://lake/orders' USING parquet SELECT * FROM input_0
INSERT OVERWRITE DIRECTORY 'hdfs://127.0.0.1:1/x' USING parquet SELECT 1
FROM input_0 INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT id
FROM input_0 INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT id INSERT OVERWRITE DIRECTORY '{folder}/b' USING csv SELECT kind
FROM input_0 INSERT OVERWRITE DIRECTORY 's3a://lake/orders' USING csv SELECT id
FROM input_0 INSERT OVERWRITE LOCAL DIRECTORY '{folder}' SELECT id
FROM (SELECT * FROM input_0) x INSERT INTO input_0 SELECT * INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT id
WITH a AS (SELECT * FROM input_0) INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT * FROM a
WITH a AS (SELECT * FROM input_0) FROM a INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT id
WITH a AS (SELECT 1), b AS (SELECT * FROM a) INSERT OVERWRITE DIRECTORY 's3a://lake/orders' USING csv SELECT * FROM b
WITH a AS (WITH b AS (SELECT 1) SELECT * FROM b) INSERT INTO input_0 SELECT * FROM a
/* SELECT */ INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1
-- SELECT\\nINSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1
INSERT INTO input_0 SELECT 1, 2
INSERT INTO input_0 VALUES (1, 2)
INSERT OVERWRITE input_0 SELECT 1, 2
INSERT OVERWRITE TABLE input_0 SELECT 1, 2
INSERT INTO parquet.`{folder}` SELECT 1
INSERT OVERWRITE parquet.`{folder}` SELECT 1
INSERT INTO input_0 REPLACE WHERE id = 1 SELECT 1, 2
INSERT INTO input_0 BY NAME SELECT 1 AS id
INSERT WITH SCHEMA EVOLUTION INTO input_0 SELECT 1
UPDATE input_0 SET id = 1
DELETE FROM input_0
DELETE FROM input_0 WHERE id IN (SELECT 1)
MERGE INTO input_0 USING input_1 ON input_0.id = input_1.id WHEN MATCHED THEN DELETE
TRUNCATE TABLE input_0
LOAD DATA LOCAL INPATH '{secret}' INTO TABLE input_0
LOAD DATA INPATH '{folder}' OVERWRITE INTO TABLE input_0
COPY INTO input_0 FROM '{folder}' FILEFORMAT = CSV
EXPORT TABLE input_0 TO '{folder}'
IMPORT TABLE t FROM '{folder}'
""")

# Definitions
DEFINITIONS = _lines("""
CREATE TABLE t AS SELECT 1
CREATE TABLE t (a INT)
CREATE TABLE t USING parquet LOCATION '{folder}' AS SELECT 1 AS a
CREATE TABLE t USING csv OPTIONS (path '{secret}')
CREATE EXTERNAL TABLE t (a STRING) STORED AS TEXTFILE LOCATION '{folder}'
CREATE OR REPLACE TABLE t AS SELECT 1
REPLACE TABLE t AS SELECT 1
CREATE TABLE t LIKE input_0
CREATE TEMPORARY TABLE t USING csv OPTIONS (path '{secret}')
CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{secret}')
CREATE TEMPORARY VIEW v AS SELECT 1
CREATE OR REPLACE TEMPORARY VIEW input_0 AS SELECT 1 AS id
CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT 1
CREATE VIEW v AS SELECT 1
CREATE MATERIALIZED VIEW v AS SELECT 1
CREATE STREAMING TABLE t AS SELECT 1
CREATE FLOW f AS INSERT INTO input_0 BY NAME SELECT 1
ALTER VIEW input_0 AS SELECT 1
ALTER TABLE input_0 ADD COLUMN x INT
ALTER TABLE input_0 SET LOCATION '{folder}'
ALTER TABLE input_0 RENAME TO other
DROP VIEW input_0
DROP TABLE IF EXISTS input_0
DROP DATABASE default CASCADE
CREATE DATABASE d LOCATION '{folder}'
CREATE NAMESPACE d
CREATE FUNCTION f AS 'java.lang.Runtime'
CREATE FUNCTION f AS 'x.Y' USING JAR '{folder}/x.jar'
CREATE TEMPORARY FUNCTION f AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect'
CREATE TEMPORARY FUNCTION f() RETURNS STRING RETURN reflect('java.lang.System', 'getProperty', 'user.home')
CREATE FUNCTION f() RETURNS INT LANGUAGE PYTHON AS $$ return 1 $$
DROP TEMPORARY FUNCTION abs
CREATE INDEX i ON input_0 (id)
COMMENT ON TABLE input_0 IS 'x'
ANALYZE TABLE input_0 COMPUTE STATISTICS
MSCK REPAIR TABLE input_0
REPAIR TABLE input_0
REFRESH TABLE input_0
REFRESH '{folder}'
REFRESH FUNCTION abs
""")

# The session and its machine changed or shown
SESSION = _lines("""
SET spark.sql.runSQLOnFiles=true
SET spark.sql.ansi.enabled=false
SET
SET -v
SET TIME ZONE 'Europe/Berlin'
SET VAR x = 1
SET CATALOG spark_catalog
SET PATH = system.builtin
RESET
RESET spark.sql.ansi.enabled
USE default
USE CATALOG spark_catalog
DECLARE VARIABLE x = 1
DECLARE OR REPLACE x STRING DEFAULT '{secret}'
DROP TEMPORARY VARIABLE x
CACHE TABLE input_0
CACHE LAZY TABLE c AS SELECT * FROM input_0
CACHE TABLE c OPTIONS ('storageLevel' 'DISK_ONLY') AS SELECT 1
UNCACHE TABLE input_0
CLEAR CACHE
ADD JAR '{folder}/x.jar'
ADD JAR 'ivy://org.example:x:1.0'
ADD FILE '{secret}'
ADD FILES '{folder}/a' '{folder}/b'
ADD ARCHIVE '{folder}/x.zip'
LIST JARS
LIST FILES
SHOW TABLES
SHOW VIEWS
SHOW DATABASES
SHOW FUNCTIONS
SHOW COLUMNS IN input_0
SHOW CREATE TABLE input_0
SHOW TBLPROPERTIES input_0
SHOW TABLE EXTENDED LIKE 'input*'
SHOW CATALOGS
DESCRIBE input_0
DESCRIBE TABLE EXTENDED input_0
DESCRIBE FUNCTION abs
DESCRIBE QUERY SELECT 1
DESC DATABASE default
EXPLAIN SELECT * FROM input_0
EXPLAIN FORMATTED INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1
EXPLAIN CODEGEN SELECT 1
CALL system.run('x')
dfs -ls /
! ls /
""")

# Statements made of texts, and several of them
MADE_OF_TEXTS = _lines("""
EXECUTE IMMEDIATE 'SELECT 1'
EXECUTE IMMEDIATE 'INSERT OVERWRITE DIRECTORY "{folder}" USING csv SELECT 1'
EXECUTE IMMEDIATE concat('INSERT OVERWRITE DIRECTORY "', '{folder}', '" USING csv SELECT 1')
EXECUTE IMMEDIATE 'SELECT ?' USING 1
BEGIN SELECT 1; END
BEGIN INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1; END
BEGIN DECLARE x INT DEFAULT 1; SET x = 2; SELECT x; END
BEGIN IF 1 = 1 THEN SELECT 1; ELSE SELECT 2; END IF; END
BEGIN WHILE true DO SELECT 1; END WHILE; END
SELECT 1; SELECT 2
SELECT 1; INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1
SELECT * FROM input_0 WHERE id = :id
SELECT * FROM input_0 WHERE id = ?
SELECT * FROM input_0 LIMIT :n
SELECT * FROM IDENTIFIER('csv.`' || '{secret}' || '`')
SELECT * FROM IDENTIFIER(:t)
SELECT IDENTIFIER('id') FROM input_0
SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getProperty', 'user.home')
SELECT IDENTIFIER(lower('REFLECT'))('java.lang.System', 'getProperty', 'user.home')
SELECT * FROM IDENTIFIER('text' || '.' || '`{secret}`')
SELECT ${env:HOME}
SELECT * FROM ${spark:spark.app.name}
""")

# Files and tables that are not inputs
RELATIONS = _lines("""
SELECT * FROM csv.`{secret}`
SELECT * FROM csv.`/etc/passwd`
SELECT * FROM text.`file://{secret}`
SELECT * FROM TEXT.`{secret}`
SELECT * FROM parquet.`{parquet}`
SELECT * FROM parquet.`s3a://lake/orders`
SELECT * FROM json.`{secret}`
SELECT * FROM orc.`{folder}`
SELECT * FROM avro.`{folder}`
SELECT * FROM binaryFile.`{secret}`
SELECT * FROM delta.`{folder}`
SELECT * FROM iceberg.`{folder}`
SELECT * FROM xml.`{secret}`
SELECT * FROM jdbc.`jdbc:postgresql://127.0.0.1/`
SELECT * FROM org.apache.spark.sql.execution.datasources.text.TextFileFormat.`{secret}`
TABLE csv.`{secret}`
FROM text.`{secret}`
FROM text.`{secret}` |> SELECT *
SELECT (SELECT max(value) FROM text.`{secret}`) AS x
SELECT id FROM input_0 WHERE EXISTS (SELECT 1 FROM text.`{secret}`)
SELECT id FROM input_0 WHERE id IN (SELECT count(*) FROM text.`{secret}`)
SELECT id FROM input_0 ORDER BY (SELECT count(*) FROM text.`{secret}`)
SELECT id FROM input_0 GROUP BY id HAVING count(*) > (SELECT count(*) FROM text.`{secret}`)
SELECT CASE WHEN true THEN (SELECT max(value) FROM text.`{secret}`) END AS x
WITH x AS (SELECT * FROM text.`{secret}`) SELECT * FROM x
WITH x AS (SELECT * FROM text.`{secret}`) SELECT 1 AS one
WITH RECURSIVE x(v) AS (SELECT value FROM text.`{secret}` UNION ALL SELECT v FROM x WHERE false) SELECT * FROM x
SELECT * FROM input_0 JOIN text.`{secret}` ON true
SELECT * FROM input_0, LATERAL (SELECT * FROM text.`{secret}`)
SELECT id FROM input_0 UNION ALL SELECT length(value) FROM text.`{secret}`
FROM input_0 |> JOIN text.`{secret}` ON true
FROM input_0 |> UNION ALL TABLE csv.`{secret}`
FROM input_0 |> WHERE id IN (SELECT count(*) FROM text.`{secret}`)
SELECT * FROM input_0 PIVOT (max((SELECT max(value) FROM text.`{secret}`)) FOR kind IN (1))
SELECT transform(array(1), x -> (SELECT max(value) FROM text.`{secret}`)) AS y
SELECT * FROM explode(array((SELECT max(value) FROM text.`{secret}`)))
SELECT sum(id) OVER (ORDER BY (SELECT count(*) FROM text.`{secret}`)) AS s FROM input_0
SELECT * FROM VALUES ((SELECT max(value) FROM text.`{secret}`)) AS t(x)
SELECT * FROM global_temp.others
SELECT * FROM session.input_0
SELECT * FROM default.input_0
SELECT * FROM spark_catalog.default.input_0
SELECT * FROM system.information_schema.tables
SELECT * FROM information_schema.tables
SELECT * FROM others
TABLE others
WITH a AS (SELECT * FROM others), others AS (SELECT 1) SELECT * FROM a
SELECT * FROM input_0 VERSION AS OF 1
SELECT * FROM input_0 TIMESTAMP AS OF '2024-01-01'
SELECT * FROM input_0 TIMESTAMP AS OF (SELECT max(value) FROM text.`{secret}`)
SELECT * FROM input_0 CHANGES FROM VERSION 1 TO VERSION 2
SELECT * FROM STREAM input_0
SELECT * FROM STREAM(input_0)
SELECT * FROM STREAM text.`{folder}`
""")

# Functions that call Java, read files, or show the machine
FUNCTIONS = _lines("""
SELECT reflect('java.lang.System', 'getProperty', 'user.home')
SELECT REFLECT('java.lang.System', 'getProperty', 'user.home')
SELECT `reflect`('java.lang.System', 'getProperty', 'user.home')
SELECT java_method('java.lang.System', 'getenv', 'PATH')
SELECT try_reflect('java.lang.System', 'getProperty', 'user.home')
SELECT system.builtin.reflect('java.lang.System', 'getProperty', 'user.home')
SELECT builtin.java_method('java.lang.System', 'getProperty', 'user.home')
SELECT id FROM input_0 WHERE reflect('java.lang.System', 'exit', 1) = 'x'
SELECT transform(array(1), x -> reflect('java.lang.System', 'getProperty', 'user.home')) AS y
SELECT * FROM VALUES (reflect('java.lang.System', 'getProperty', 'user.home')) AS t(x)
SELECT * FROM range(length(reflect('java.lang.System', 'getProperty', 'user.home')))
SELECT from_json('x', reflect('java.lang.System', 'getProperty', 'user.home'))
SELECT /*+ REPARTITION(3) */ reflect('java.lang.System', 'getProperty', 'user.home') AS x FROM input_0
FROM input_0 |> EXTEND reflect('java.lang.System', 'getProperty', 'user.home') AS x
SELECT max(id) FILTER (WHERE reflect('java.lang.System', 'exit', 1) = 'x') AS x FROM input_0
SELECT * FROM input_0 LATERAL VIEW explode(array(reflect('java.lang.System', 'getProperty', 'user.home'))) t AS x
SELECT * FROM input_0 LATERAL VIEW reflect('java.lang.System', 'getProperty', 'user.home') t AS x
SELECT input_file_name() AS x FROM input_0
SELECT input_file_block_start() AS x FROM input_0
SELECT input_file_block_length() AS x FROM input_0
SELECT current_user() AS x
SELECT current_user AS x
SELECT user AS x
SELECT session_user AS x
SELECT user() AS x
SELECT id FROM input_0 LIMIT length(current_user())
SELECT current_catalog() AS x
SELECT current_database() AS x
SELECT current_schema() AS x
SELECT version() AS x
SELECT from_xml('<a/>', 'a STRING', map('rowValidationXSDPath', '{secret}'))
SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', '{secret}'))
SELECT from_avro(cast('x' AS BINARY), '"string"')
SELECT schema_of_avro('"string"')
SELECT from_protobuf(cast('x' AS BINARY), 'M', '{secret}')
SELECT to_protobuf(struct(1), 'M', '{secret}')
SELECT main.default.f(1)
SELECT system.session.abs(1)
SELECT hive.f(1)
SELECT * FROM read_files('{folder}')
SELECT * FROM read_files('s3a://lake/orders', format => 'parquet')
SELECT * FROM read_kafka(bootstrapServers => '127.0.0.1')
SELECT * FROM python_worker_logs()
SELECT * FROM sql_keywords()
SELECT * FROM collations()
SELECT * FROM table_changes('input_0', 1)
SELECT * FROM system.builtin.python_worker_logs()
SELECT * FROM http_request('http://127.0.0.1/')
SELECT * FROM remote_query('x', query => 'SELECT 1')
SELECT * FROM LATERAL read_files('{folder}')
SELECT * FROM f(TABLE(input_0))
SELECT ai_query('model', 'x')
SELECT secret('scope', 'key')
""")

# Programs
PROGRAMS = _lines("""
SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM input_0
SELECT TRANSFORM(*) USING 'tee {folder}/x' FROM input_0
MAP id USING 'cat' AS x FROM input_0
FROM input_0 MAP id USING 'sh -c "cat {secret}"' AS x
FROM (FROM input_0 MAP id, kind USING 'cat' AS (a, b) CLUSTER BY a) m REDUCE a, b USING 'cat' AS (c, d)
SELECT (SELECT max(x) FROM (SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM input_0)) AS y
WITH p AS (SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM input_0) SELECT 1 AS one
""")

# Text that Spark would evaluate or open outside of the plan: defaults and types in a schema, documents that name files
HIDDEN = _lines("""
SELECT from_json('{}', '{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"metadata":{"EXISTS_DEFAULT":"version()"}}]}') AS x
SELECT from_json('{}', '{"type":"array","elementType":{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"metadata":{"CURRENT_DEFAULT":"current_user()"}}]},"containsNull":true}') AS x
SELECT from_json('{}', concat('{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"metadata":', '{"EXISTS_DEFAULT":"version()"}}]}')) AS x
SELECT from_csv('', '{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"metadata":{"EXISTS_DEFAULT":"version()"}}]}') AS x
SELECT from_json('{}', 'a STRING DEFAULT version()') AS x
SELECT from_json('{}', '{"type":"struct","fields":[{"name":"a","type":{"type":"udt","class":"x","pyClass":"antigravity.X","sqlType":"string"},"nullable":true,"metadata":{}}]}') AS x
SELECT from_json('{}', '{"type":"struct","fields":[{"name":"a","type":{"type":"udt","pyClass":"antigravity.X","serializedClass":"eA==","sqlType":"string"},"nullable":true,"metadata":{}}]}') AS x
SELECT from_xml('<a>q</a>', 'a string', map('rowValidationXSDPath', '{secret}')).a AS x
SELECT xpath('<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}">]><a>&x;</a>', 'a/text()') AS x
SELECT xpath_string('<!DOCTYPE a SYSTEM "file://{secret}"><a/>', 'a/@b') AS x
SELECT to_xml(struct(1 AS x)) AS x
""")

# Later syntax, and clauses in which an expression is easily overlooked
CLAUSES = _lines("""
SELECT id FROM input_0 WINDOW w AS (ORDER BY reflect('java.lang.System', 'exit', 1))
SELECT id FROM input_0 QUALIFY reflect('java.lang.System', 'exit', 1) = row_number() OVER (ORDER BY id)
SELECT listagg('x', ',') WITHIN GROUP (ORDER BY reflect('java.lang.System', 'getProperty', 'user.home')) AS x FROM input_0
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY (SELECT count(*) FROM text.`{secret}`)) AS x FROM input_0
SELECT abs(expr => reflect('java.lang.System', 'exit', 1)) AS x
SELECT id FROM input_0 LIMIT (SELECT count(*) FROM text.`{secret}`)
SELECT id FROM input_0 ORDER BY id OFFSET length(reflect('java.lang.System', 'getProperty', 'user.home'))
SELECT session_window(TIMESTAMP '2024-01-01', reflect('java.lang.System', 'getProperty', 'user.home')) AS x
SELECT variant_get(parse_json(reflect('java.lang.System', 'getProperty', 'user.home')), '$', 'string') AS x
SELECT from_json('1', schema_of_json(reflect('java.lang.System', 'getProperty', 'user.home'))) AS x
FROM input_0 |> AGGREGATE max(reflect('java.lang.System', 'getProperty', 'user.home')) AS x GROUP BY kind
FROM input_0 |> SET id = (SELECT max(value) FROM text.`{secret}`)
FROM input_0 |> EXTEND IDENTIFIER('refl' || 'ect')('java.lang.System', 'getProperty', 'user.home') AS x
SELECT * FROM IDENTIFIER('oth' || 'ers')
WITH x AS (SELECT * FROM IDENTIFIER('global_temp.' || 'others')) SELECT * FROM x
SELECT * FROM range(start => 0, end => length(reflect('java.lang.System', 'getProperty', 'user.home')))
SELECT * FROM `input_0@v1`
SELECT system.session.x
SELECT session.x AS y
BEGIN DECLARE c CURSOR FOR SELECT * FROM text.`{secret}`; OPEN c; CLOSE c; END
BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1; SELECT 1 / 0; END
BEGIN EXECUTE IMMEDIATE 'SELECT * FROM text.`{secret}`'; END
BEGIN FOR r AS SELECT * FROM text.`{secret}` DO SELECT r.value; END FOR; END
""")

# Plans that are too large to be planned
HUGE_PLANS = _lines("""
SELECT /*+ REPARTITION(100000000) */ id FROM input_0
SELECT /*+ REPARTITION(100000000, id) */ id FROM input_0
SELECT /*+ REPARTITION_BY_RANGE(100000000, id) */ id FROM input_0
SELECT /*+ REBALANCE(100000000, id) */ id FROM input_0
SELECT /*+ REBALANCE(100000000) */ id FROM input_0
SELECT /*+ COALESCE(100000000) */ id FROM input_0
SELECT id FROM input_0 WHERE id IN (SELECT /*+ REPARTITION(10001) */ id FROM input_1)
SELECT id FROM range(0, 10, 1, 100000000)
FROM input_0 |> JOIN (SELECT /*+ REPARTITION(2000000000) */ id FROM input_1) USING (id) |> SELECT id
WITH RECURSIVE t(n) MAX RECURSION LEVEL 1000000000 AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t LIMIT 5
""")

# Allowed, and harmless: whatever they give, it is nothing of the machine and no path of the lake.
HARMLESS = _lines("""
SELECT '${env:HOME} ${system:user.home} ${spark:spark.app.id}' AS x
SELECT * FROM VALUES (current_user) AS t(x)
SELECT from_json('{}', concat('a ', current_user)) AS x
SELECT _metadata.file_path AS x FROM input_0
SELECT input_0._metadata AS x FROM input_0
SELECT * FROM input_0 WITH (`path` = '{secret}')
SELECT * FROM input_0 WITH ('path' = 'file://{parquet}', 'mergeSchema' = 'true')
SELECT current_timezone() AS x
SELECT from_json('{"a": 1}', schema_of_json('{"a": 1}')) AS x
""")

SQL: list[tuple[str, frozenset[str]]] = [
    *((sql, REFUSED_OR_INVALID) for sql in (*WRITES, *DEFINITIONS, *SESSION, *MADE_OF_TEXTS, *RELATIONS, *FUNCTIONS, *CLAUSES)),
    *((sql, REFUSED) for sql in (*PROGRAMS, *HUGE_PLANS)),
    *((sql, REFUSED_OR_INVALID) for sql in HIDDEN),
]
