-- name: clock
SELECT now()
