"""Statements that the operator `sql` runs. `input_0` is also called `orders`, `input_1` has no name; both have `id` and `kind`."""

HONEST = [line for line in """
SELECT * FROM orders
TABLE orders
FROM orders SELECT id
FROM orders
SELECT DISTINCT kind FROM input_0
SELECT id AS a, kind AS b FROM orders WHERE id BETWEEN 2 AND 5 AND kind IN (1, 2) OR id IS NULL
SELECT ORDERS.ID FROM Orders
SELECT o.* EXCEPT (kind) FROM orders o
WITH a AS (SELECT id FROM orders), b AS (SELECT * FROM a WHERE id > 3) SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.id = b.id
WITH orders AS (SELECT 1 AS x) SELECT * FROM orders
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t
SELECT o.id, i.kind FROM orders o INNER JOIN input_1 i USING (id)
SELECT o.id FROM orders o LEFT ANTI JOIN input_1 i ON o.id = i.id
SELECT o.id FROM orders o LEFT SEMI JOIN input_1 i ON o.id = i.id
SELECT o.id AS a, i.id AS b FROM orders o FULL OUTER JOIN input_1 i ON o.id = i.id
SELECT o.id AS a, i.id AS b FROM orders o CROSS JOIN input_1 i
SELECT * FROM orders NATURAL JOIN input_1
SELECT o.id, l.twice FROM orders o, LATERAL (SELECT o.id * 2 AS twice) l
SELECT id, sum(id) OVER (PARTITION BY kind ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS running FROM orders
SELECT id, row_number() OVER w AS n, lag(id) OVER w AS before FROM orders WINDOW w AS (PARTITION BY kind ORDER BY id)
SELECT id FROM orders QUALIFY row_number() OVER (PARTITION BY kind ORDER BY id DESC) = 1
SELECT kind, count(*) AS n, avg(id) AS mean, max_by(id, kind) AS m FROM orders GROUP BY kind HAVING count(*) > 1
SELECT kind, id, count(*) AS n FROM orders GROUP BY GROUPING SETS ((kind), (id), ())
SELECT kind, sum(id) AS s, grouping(kind) AS g FROM orders GROUP BY ROLLUP (kind)
SELECT kind, sum(id) AS s FROM orders GROUP BY CUBE (kind)
SELECT kind, sum(id) AS s FROM orders GROUP BY ALL ORDER BY ALL
SELECT count(*) FILTER (WHERE kind = 1) AS n, count(DISTINCT kind) AS d FROM orders
SELECT * FROM orders PIVOT (count(id) FOR kind IN (0 AS zero, 1 AS one, 2 AS two))
SELECT * FROM orders UNPIVOT (value FOR name IN (id, kind))
SELECT id, x FROM orders LATERAL VIEW explode(array(1, 2)) t AS x
SELECT id, x FROM orders LATERAL VIEW OUTER posexplode(array(id)) t AS at, x
SELECT explode(array(1, 2, 3)) AS x
SELECT * FROM explode(array(1, 2))
SELECT o.id, e.col FROM orders o, LATERAL explode(array(o.id, o.kind)) e
SELECT * FROM stack(2, 1, 2, 3)
SELECT stack(2, 1, 2, 3) AS (a, b)
SELECT inline(array(struct(1 AS a, 2 AS b)))
SELECT json_tuple('{"a": 1}', 'a') AS a
SELECT id FROM range(1, 10, 2)
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(n, s)
VALUES (1, abs(-2)), (3, 4)
SELECT (SELECT max(id) FROM input_1) AS most, id FROM orders
SELECT id FROM orders o WHERE id > (SELECT avg(id) FROM input_1 i WHERE i.kind = o.kind)
SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM input_1 i WHERE i.id = o.id)
SELECT id FROM orders WHERE (id, kind) NOT IN (SELECT id, kind FROM input_1)
SELECT id FROM orders UNION SELECT id FROM input_1
SELECT id FROM orders EXCEPT SELECT id FROM input_1
SELECT id FROM orders INTERSECT ALL SELECT id FROM input_1
SELECT id FROM orders UNION ALL SELECT id FROM input_1 MINUS SELECT 3
SELECT id FROM orders ORDER BY kind DESC NULLS LAST, id LIMIT 3 OFFSET 1
SELECT id FROM orders DISTRIBUTE BY kind SORT BY id
SELECT id FROM orders CLUSTER BY id
SELECT id FROM orders TABLESAMPLE (50 PERCENT) REPEATABLE (1)
SELECT /*+ BROADCAST(i), REPARTITION(2, id) */ o.id FROM orders o JOIN input_1 i ON o.id = i.id
SELECT /*+ MERGE(i), COALESCE(1), NO_SUCH_HINT */ o.id FROM orders o JOIN input_1 i ON o.id = i.id
SELECT /*+ REBALANCE(id) */ id FROM orders
SELECT /*+ REPARTITION(10000) */ id FROM orders WHERE false
SELECT id FROM range(0, 10, 1, 4)
WITH RECURSIVE t(n) MAX RECURSION LEVEL 20 AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t
FROM orders |> WHERE id > 2 |> SELECT id, kind |> EXTEND id * 2 AS twice |> SET twice = twice + 1 |> DROP kind |> AS t |> ORDER BY t.id |> LIMIT 3
FROM orders |> AGGREGATE sum(id) AS s GROUP BY kind |> WHERE s > 1
FROM orders |> JOIN input_1 USING (id) |> SELECT id
FROM orders |> UNION ALL TABLE input_1
SELECT transform(array(1, 2), x -> x + 1) AS a, filter(array(1, 2), x -> x > 1) AS b, aggregate(array(1, 2), 0, (s, x) -> s + x) AS c, exists(array(1), x -> x = 1) AS d
SELECT CAST(id AS STRING) AS a, id::DECIMAL(10, 2) AS b, try_cast('x' AS INT) AS c, DATE '2024-01-01' AS d, INTERVAL 1 DAY AS e FROM orders
SELECT CASE kind WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END AS x, if(id > 1, 1, 0) AS y, coalesce(NULL, id) AS z, nullif(id, 1) AS w FROM orders
SELECT upper('a') || lower('B') AS a, regexp_replace('abc', 'b', 'x') AS b, split('a,b', ',')[0] AS c, 'abc' LIKE 'a%' AS d, 'abc' RLIKE '^a' AS e, substring('abc' FROM 2 FOR 1) AS f
SELECT date_trunc('MONTH', TIMESTAMP '2024-01-15 00:00:00') AS a, date_add(DATE '2024-01-01', 1) AS b, EXTRACT(YEAR FROM DATE '2024-01-01') AS c, current_date AS d, now() AS e
SELECT named_struct('a', 1).a AS a, map('k', 1)['k'] AS b, array(1, 2)[0] AS c, struct(1, 2) AS d
SELECT from_json('{"a": 1}', 'a INT').a AS a, to_json(struct(1 AS x)) AS b, get_json_object('{"a": 1}', '$.a') AS c, from_csv('1', 'a INT').a AS d
SELECT md5('x') AS a, sha2('x', 256) AS b, hash(1) AS c, xxhash64(1) AS d, crc32('x') AS e, base64(cast('x' AS BINARY)) AS f, uuid() IS NOT NULL AS g
SELECT window.start AS s, count(*) AS n FROM (SELECT TIMESTAMP '2024-01-01 00:00:00' AS at) GROUP BY window(at, '1 hour')
SELECT session_window.start AS s, count(*) AS n FROM (SELECT TIMESTAMP '2024-01-01 00:00:00' AS at) GROUP BY session_window(at, '5 minutes')
SELECT try_divide(1, 0) AS a, round(1.25, 1) AS b, 7 % 3 AS c, 7 div 2 AS d, pmod(-1, 3) AS e, greatest(1, 2) AS f, typeof(1) AS g, 5 & 3 AS h, ~1 AS i
SELECT approx_count_distinct(id) AS a, percentile(id, 0.5) AS b, collect_list(id) AS c, any_value(id) AS d, listagg(cast(id AS STRING), ',') AS e, mode(id) AS f FROM orders
SELECT from_json('{"a": 1}', 'a INT COMMENT \\'x\\', b STRING') AS a, from_csv('1', 'a INT') AS b, parse_url('http://h/p?q=1', 'QUERY') AS c, variant_get(parse_json('{"a": 1}'), '$.a', 'int') AS d
SELECT system.builtin.abs(-1) AS a, builtin.upper('x') AS b
SELECT user FROM (SELECT 'a column' AS user)
SELECT 'INSERT OVERWRITE DIRECTORY' AS a, "reflect" AS b, 'csv.`/etc/passwd`' AS c -- DROP TABLE x
SELECT id COLLATE UTF8_LCASE AS x FROM (SELECT 'A' AS id)
SELECT raise_error('x') AS x FROM orders WHERE id > 100
SELECT monotonically_increasing_id() AS n, rand(1) < 2 AS r FROM orders
SELECT id FROM orders WHERE NOT (kind <=> NULL) AND kind IS DISTINCT FROM 7 AND id NOT LIKE '9%'
""".strip().splitlines() if line]
