-- Series of recurring jobs: each has one live occurrence, whose end stores the next.

-- name: insert_series
INSERT INTO dilamme.series (id, interval_seconds, created_at)
SELECT s.id, s.interval_seconds, dilamme.clock()
FROM unnest(%(ids)s::uuid[], %(interval_seconds)s::integer[]) AS s (id, interval_seconds)

-- name: series_of
SELECT series_id FROM dilamme.jobs WHERE id = %(id)s

-- name: lock_series
-- Before the jobs, in id order: a transaction that ends a series and one that extends it take turns here.
SELECT id, interval_seconds, ended_at FROM dilamme.series
WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE

-- name: end_series
UPDATE dilamme.series SET ended_at = dilamme.clock() WHERE id = ANY(%(ids)s::uuid[]) AND ended_at IS NULL RETURNING id

-- name: pending_of_series
SELECT id FROM dilamme.jobs WHERE series_id = %(series_id)s AND status = 'pending'

-- name: insert_next
-- The next occurrence, on the grid. The two unique indexes on the series make a second one impossible.
INSERT INTO dilamme.jobs (
    id, status, unmet_dependencies, created_at, scheduled_at, ready_at, series_id,
-- include: chosen_columns
)
SELECT next.id, 'pending', next.unmet, dilamme.clock(), next.slot, greatest(next.slot, dilamme.clock()), previous.series_id,
-- include: inherited_values
FROM unnest(%(ids)s::uuid[], %(previous_ids)s::uuid[], %(slots)s::timestamptz[], %(unmet)s::integer[])
    AS next (id, previous_id, slot, unmet)
JOIN dilamme.jobs AS previous ON previous.id = next.previous_id
JOIN dilamme.series ON series.id = previous.series_id
WHERE series.ended_at IS NULL AND NOT previous.replayed
ON CONFLICT DO NOTHING
RETURNING id

-- name: clock
SELECT dilamme.clock() AS now

-- name: keep_keys
-- The occurrence that was stored under the key is deleted: from now on its series holds the key.
UPDATE dilamme.series SET idempotency_key = kept.key
FROM unnest(%(ids)s::uuid[], %(keys)s::text[]) AS kept (id, key)
WHERE series.id = kept.id

-- name: newest_of_key
SELECT job.id FROM dilamme.series JOIN dilamme.jobs AS job ON job.series_id = series.id
WHERE series.idempotency_key = %(key)s
ORDER BY job.scheduled_at DESC LIMIT 1

-- name: prune_series
DELETE FROM dilamme.series
WHERE series.id = ANY(%(ids)s::uuid[]) AND NOT EXISTS (SELECT FROM dilamme.jobs WHERE jobs.series_id = series.id)
RETURNING idempotency_key
