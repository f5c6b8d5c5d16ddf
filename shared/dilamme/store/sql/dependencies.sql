-- What follows a job's end, in the same transaction: its children, and its series' next occurrence.

-- name: release
-- A statement of its own, after the parents' rows are locked: its snapshot sees every child whose insertion held those
-- locks before us. A child that waits on several of them is counted down by as many at once.
WITH freed AS MATERIALIZED (
    SELECT child_id, count(*) AS parents FROM dilamme.job_dependencies
    WHERE parent_id = ANY(%(ids)s::uuid[]) GROUP BY child_id
),
locked AS MATERIALIZED (
    SELECT job.id FROM dilamme.jobs AS job
    WHERE job.id = ANY(ARRAY(SELECT child_id FROM freed)) AND job.status = 'pending' AND job.unmet_dependencies > 0
    ORDER BY job.id FOR NO KEY UPDATE
)
UPDATE dilamme.jobs AS job
SET unmet_dependencies = job.unmet_dependencies - freed.parents, ready_at = greatest(job.ready_at, dilamme.clock())
FROM freed
WHERE job.id = freed.child_id AND job.id = ANY(ARRAY(SELECT id FROM locked))
  AND job.status = 'pending' AND job.unmet_dependencies >= freed.parents
RETURNING job.unmet_dependencies = 0 AS free, job.ready_at <= dilamme.clock() AS due

-- name: cancel_dependents
-- Those that asked for it, one generation; the use case repeats it on what comes back.
UPDATE dilamme.jobs AS job
SET status = 'cancelled', finished_at = dilamme.clock(), errors = job.errors || jsonb_build_object(
        'reason', 'dependency_failed', 'message', 'a job that it depends on is dead or cancelled',
        'attempt', job.attempt, 'at', dilamme.clock())
WHERE job.status = 'pending' AND job.id = ANY(ARRAY(
    SELECT child.id FROM dilamme.jobs AS child
    WHERE child.status = 'pending' AND child.on_dependency_failure = 'cancel' AND child.id IN (
        SELECT child_id FROM dilamme.job_dependencies WHERE parent_id = ANY(%(ids)s::uuid[]))
    ORDER BY child.id FOR NO KEY UPDATE))
RETURNING job.id, job.series_id

-- name: lock_series
-- Before the jobs, in id order: who ends a series and who extends it take turns here.
SELECT id, interval_seconds, ended_at FROM dilamme.series
WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE

-- name: end_series
UPDATE dilamme.series SET ended_at = dilamme.clock() WHERE id = ANY(%(ids)s::uuid[]) AND ended_at IS NULL RETURNING id

-- name: edges_of
SELECT child_id, parent_id FROM dilamme.job_dependencies WHERE child_id = ANY(%(ids)s::uuid[])

-- name: insert_next
-- The next occurrence, on the grid. The two unique indexes on the series make a second one impossible.
INSERT INTO dilamme.jobs (
    id, type, status, priority, max_attempts, unmet_dependencies, on_dependency_failure, created_at, scheduled_at,
    ready_at, series_id, payload
)
SELECT next.id, previous.type, 'pending', previous.priority, previous.max_attempts, next.unmet,
       previous.on_dependency_failure, dilamme.clock(), next.slot, greatest(next.slot, dilamme.clock()),
       previous.series_id, previous.payload
FROM unnest(%(ids)s::uuid[], %(previous_ids)s::uuid[], %(slots)s::timestamptz[], %(unmet)s::integer[])
    AS next (id, previous_id, slot, unmet)
JOIN dilamme.jobs AS previous ON previous.id = next.previous_id
JOIN dilamme.series ON series.id = previous.series_id
WHERE series.ended_at IS NULL AND NOT previous.replayed
ON CONFLICT DO NOTHING
RETURNING id

-- name: clock
SELECT dilamme.clock() AS now
