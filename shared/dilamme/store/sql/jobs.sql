-- Jobs: stored, cancelled, replayed.

-- fragment: new_jobs
-- One statement, so that a batch shares one creation time and its ids (UUIDv7) keep its order. A time in the past gives no
-- priority: the job is ready from now on. A column that most jobs leave out comes as an array of NULLs, which is empty.
-- The `chosen_` fragments are made from the table in store/job_columns.py.
INSERT INTO dilamme.jobs AS job (
    id, status, unmet_dependencies, created_at, scheduled_at, ready_at, finished_at, series_id, idempotency_key, errors,
-- include: chosen_columns
)
SELECT s.id, CASE WHEN s.failure IS NULL THEN 'pending' ELSE 'cancelled' END, coalesce(s.unmet, 0), dilamme.clock(),
       coalesce(s.scheduled_at, dilamme.clock()), greatest(s.scheduled_at, dilamme.clock()),
       CASE WHEN s.failure IS NOT NULL THEN dilamme.clock() END, s.series_id, %(idempotency_key)s,
       CASE WHEN s.failure IS NULL THEN '[]' ELSE jsonb_build_array(jsonb_build_object(
           'reason', 'dependency_failed', 'message', s.failure, 'attempt', 0, 'at', dilamme.clock())) END,
-- include: chosen_values
FROM unnest(
    %(ids)s::uuid[], %(unmet)s::integer[], %(scheduled_at)s::timestamptz[], %(series_ids)s::uuid[], %(failures)s::text[],
-- include: chosen_arrays
) AS s (id, unmet, scheduled_at, series_id, failure,
-- include: chosen_columns
)

-- fragment: is_free_and_due
-- include: in_lane
    AS free, ready_at <= dilamme.clock() AS due

-- name: insert
-- include: new_jobs
RETURNING
-- include: is_free_and_due

-- name: insert_one
-- Returns the job as `find_job` does, so that its caller needs no second statement. The type's attempts come by a
-- subquery, which costs the planner less than the join there.
-- include: new_jobs
RETURNING
-- include: is_free_and_due
    ,
-- include: own
    ,
-- include: own_at_length
    , coalesce(job.max_attempts, (
        SELECT job_type.max_attempts FROM dilamme.job_types AS job_type WHERE job_type.type = job.type)) AS max_attempts

-- name: lock_job
SELECT status, replayed FROM dilamme.jobs WHERE id = %(id)s FOR NO KEY UPDATE

-- name: cancel
UPDATE dilamme.jobs AS job
SET status = 'cancelled', finished_at = dilamme.clock(), errors = job.errors || jsonb_build_object(
        'reason', 'cancelled', 'message', %(message)s::text, 'attempt', job.attempt, 'at', dilamme.clock())
WHERE job.status = 'pending' AND job.id = ANY(ARRAY(
    SELECT id FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[]) AND status = 'pending' ORDER BY id FOR NO KEY UPDATE))
RETURNING job.id, job.type, job.attempt, job.scheduled_at, job.series_id, job.replayed

-- name: replay
-- Attempts begin anew, errors stay. A replayed occurrence is no longer part of its series' chain and does not extend it.
UPDATE dilamme.jobs AS job
SET status = 'pending', attempt = 0, ready_at = dilamme.clock(), started_at = NULL, finished_at = NULL,
    unknown_since = NULL, replayed = true
WHERE job.status = 'dead' AND job.id = ANY(ARRAY(
    SELECT id FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[]) AND status = 'dead' ORDER BY id FOR NO KEY UPDATE))
RETURNING job.id

-- name: dead_jobs
-- The oldest dead jobs first. Each priority is read in the index's order: one sort of all would read all of them.
SELECT id FROM (
    (SELECT id, finished_at FROM dilamme.jobs
      WHERE status = 'dead' AND priority = 1 AND finished_at IS NOT NULL AND (%(type)s::text IS NULL OR type = %(type)s)
      ORDER BY finished_at LIMIT %(limit)s)
    UNION ALL
    (SELECT id, finished_at FROM dilamme.jobs
      WHERE status = 'dead' AND priority = 2 AND finished_at IS NOT NULL AND (%(type)s::text IS NULL OR type = %(type)s)
      ORDER BY finished_at LIMIT %(limit)s)
    UNION ALL
    (SELECT id, finished_at FROM dilamme.jobs
      WHERE status = 'dead' AND priority = 3 AND finished_at IS NOT NULL AND (%(type)s::text IS NULL OR type = %(type)s)
      ORDER BY finished_at LIMIT %(limit)s)
) AS dead
ORDER BY finished_at, id LIMIT %(limit)s

-- name: any_dead
SELECT EXISTS (
    SELECT FROM dilamme.jobs WHERE status = 'dead' AND finished_at IS NOT NULL AND (%(type)s::text IS NULL OR type = %(type)s)
) AS found
