"""Statements that people write, about `orders_raw` and `customers_raw`; each is answered."""

HONEST = [line for line in """
SELECT * FROM orders_raw
select id, amount from orders_raw where amount > 2 and country in ('de', 'fr') order by id limit 5 offset 2
SELECT country, count(*), sum(amount) FROM orders_raw GROUP BY country HAVING count(*) > 1 ORDER BY 2 DESC
SELECT count(DISTINCT customer_id) FROM orders_raw
WITH big AS (SELECT * FROM orders_raw WHERE amount > 5) SELECT country, avg(amount) FROM big GROUP BY ALL
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 10) SELECT sum(n) FROM t
SELECT o.id, c.name FROM orders_raw o JOIN customers_raw c ON c.id = o.customer_id
SELECT o.id, c.name FROM orders_raw o LEFT JOIN customers_raw c ON c.id = o.customer_id AND c.vip
SELECT * FROM customers_raw SEMI JOIN orders_raw USING (id)
SELECT * FROM customers_raw ANTI JOIN orders_raw USING (id)
SELECT * FROM orders_raw ASOF JOIN customers_raw ON orders_raw.id >= customers_raw.id
SELECT * FROM orders_raw, customers_raw WHERE orders_raw.customer_id = customers_raw.id
SELECT id FROM orders_raw QUALIFY row_number() OVER (PARTITION BY country ORDER BY id) = 1
SELECT id, sum(amount) OVER w FROM orders_raw WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
SELECT CASE WHEN amount > 5 THEN 'big' ELSE 'small' END AS size, count(*) FROM orders_raw GROUP BY 1
SELECT cast(amount AS INTEGER), amount::varchar, try_cast('x' AS INTEGER) FROM orders_raw
SELECT coalesce(country, 'none'), nullif(country, 'de'), country IS NULL, country IS DISTINCT FROM 'fr' FROM orders_raw
SELECT date_trunc('month', placed_at), extract(year FROM placed_at), placed_at + INTERVAL 1 DAY, DATE '2024-01-01' FROM orders_raw
SELECT * FROM orders_raw WHERE id IN (SELECT id FROM customers_raw) AND EXISTS (SELECT 1 FROM customers_raw WHERE customers_raw.id = orders_raw.id)
SELECT (SELECT max(id) FROM orders_raw) AS most, id FROM customers_raw
SELECT id FROM orders_raw UNION ALL SELECT id FROM customers_raw
SELECT id FROM orders_raw INTERSECT SELECT id FROM customers_raw EXCEPT SELECT 3
SELECT * EXCLUDE (weight) FROM orders_raw
SELECT * REPLACE (amount * 2 AS amount) FROM orders_raw
SELECT columns('.*id') FROM orders_raw
SELECT list_transform(tags, lambda x: upper(x)), len(tags), tags[1] FROM orders_raw
SELECT unnest(tags) AS tag, count(*) FROM orders_raw GROUP BY tag
SELECT * FROM range(10) t(i)
SELECT * FROM generate_series(1, 3) g(i), unnest(['a', 'b']) u(x)
SELECT string_agg(name, ',' ORDER BY name), list(name ORDER BY id), count(*) FILTER (WHERE vip) FROM customers_raw
SELECT * FROM (SELECT country, amount FROM orders_raw) PIVOT (sum(amount) FOR country IN ('de', 'fr'))
FROM customers_raw
FROM orders_raw SELECT id WHERE id > 1
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(x, y)
SELECT DISTINCT ON (country) country, id FROM orders_raw ORDER BY country, id
SELECT DISTINCT country FROM orders_raw
SELECT id FROM orders_raw ORDER BY ALL LIMIT 10
SELECT name LIKE 'c%', name ILIKE 'C%', name SIMILAR TO 'c.*', name ~ 'c.*' FROM customers_raw
SELECT id BETWEEN 1 AND 2, id = ANY (SELECT id FROM customers_raw), id NOT IN (3) FROM orders_raw
SELECT country, day, sum(amount) FROM orders_raw GROUP BY ROLLUP (country, day)
SELECT grouping(country), country, count(*) FROM orders_raw GROUP BY GROUPING SETS ((country), ())
SELECT 'x' || 'y', 7 % 3, 7 // 2, 2 ** 3, 5 & 1, 5 | 2, NOT true, 1 <> 2
SELECT to_json({'a': 1}) ->> '$.a', json_extract('{"c": 3}', '$.c'), {'a': {'b': 1}}.a.b
SELECT * FROM orders_raw AT (VERSION => 1)
SELECT new.id FROM orders_raw new LEFT JOIN orders_raw AT (VERSION => 1) old USING (id) WHERE old.id IS NULL
SELECT count(*) FROM "orders_raw@1" a JOIN "orders_raw@2" b USING (id)
SELECT current_date, now() > TIMESTAMPTZ '2024-01-01', random() < 2
SELECT * FROM orders_raw ORDER BY country NULLS LAST, id DESC
SELECT arg_max(id, amount), median(amount), quantile_cont(amount, 0.5), approx_count_distinct(id) FROM orders_raw
SELECT position('c' IN name), substring(name FROM 1 FOR 2), trim(name), replace(name, 'c', 'k') FROM customers_raw
SELECT placed_at AT TIME ZONE 'UTC' FROM orders_raw
SELECT id AS "select" FROM orders_raw AS "o"
SELECT if(id > 1, 'a', 'b'), greatest(id, 3), least(id, 3) FROM orders_raw
SELECT lag(amount, 1, 0) OVER (ORDER BY id), first_value(amount) OVER (ORDER BY id) FROM orders_raw
WITH a AS MATERIALIZED (SELECT 1 AS x), b AS (SELECT * FROM a) SELECT * FROM b
SELECT o.id, l.y FROM orders_raw o, LATERAL (SELECT o.id + 1) l(y)
SELECT sum(weight), avg(weight), stddev(weight) FROM orders_raw
SELECT TRY(1 / 0), date_diff('day', DATE '2024-01-01', day) FROM orders_raw
WITH orders_raw AS (SELECT * FROM orders_raw WHERE id < 5) SELECT count(*) FROM orders_raw
SELECT '/etc/passwd' AS path, 'DROP TABLE x; --' AS text, $$SELECT 1; SELECT 2$$ AS quoted
SELECT /* a comment; with a semicolon */ 1 -- and another
SELECT strftime(placed_at, '%Y'), dayname(day), epoch(placed_at) FROM orders_raw
SELECT regexp_replace(name, '[aeiou]', '_', 'g'), md5(name), sha256(name) FROM customers_raw
SELECT map {'k': 1}['k'], struct_pack(a := 1, b := 'x'), row(1, 2), [1, 2, 3][2:3]
SELECT Orders_Raw.ID FROM ORDERS_RAW LIMIT 1;
SELECT histogram(country), mode(country ORDER BY country), bool_or(id > 3) FROM orders_raw
""".strip().splitlines() if line]
