-- name: clusters
-- Whose transactions count in each epoch, from epoch 0 on.
SELECT cluster FROM log_epoch ORDER BY number
