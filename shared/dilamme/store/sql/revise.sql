-- What a person may do to a job: cancel it, end its series, replay it.

-- name: lock_job
SELECT id, status, series_id, scheduled_at, replayed FROM dilamme.jobs WHERE id = %(id)s FOR NO KEY UPDATE

-- name: series_of
SELECT series_id FROM dilamme.jobs WHERE id = %(id)s

-- name: cancel
UPDATE dilamme.jobs AS job
SET status = 'cancelled', finished_at = dilamme.clock(), errors = job.errors || jsonb_build_object(
        'reason', 'cancelled', 'message', %(message)s::text, 'attempt', job.attempt, 'at', dilamme.clock())
WHERE job.status = 'pending' AND job.id = ANY(ARRAY(
    SELECT id FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[]) AND status = 'pending' ORDER BY id FOR NO KEY UPDATE))
RETURNING job.id, job.type, job.attempt, job.scheduled_at, job.series_id, job.replayed

-- name: pending_of_series
SELECT id FROM dilamme.jobs WHERE series_id = %(series_id)s AND status = 'pending'

-- name: replay
-- Fresh attempts, old errors. A replayed occurrence stands beside its series' chain and extends it no further.
UPDATE dilamme.jobs AS job
SET status = 'pending', attempt = 0, ready_at = dilamme.clock(), started_at = NULL, finished_at = NULL,
    unknown_since = NULL, replayed = true
WHERE job.status = 'dead' AND job.id = ANY(ARRAY(
    SELECT id FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[]) AND status = 'dead' ORDER BY id FOR NO KEY UPDATE))
RETURNING job.id

-- name: dead_jobs
-- The oldest dead letters first: by priorities, which is how the index has them, since a sort of all would read all.
SELECT id FROM (
    (SELECT id, finished_at FROM dilamme.jobs
      WHERE status = 'dead' AND priority = 1 AND finished_at IS NOT NULL AND (%(type)s::text IS NULL OR type = %(type)s)
      ORDER BY finished_at LIMIT %(most)s)
    UNION ALL
    (SELECT id, finished_at FROM dilamme.jobs
      WHERE status = 'dead' AND priority = 2 AND finished_at IS NOT NULL AND (%(type)s::text IS NULL OR type = %(type)s)
      ORDER BY finished_at LIMIT %(most)s)
    UNION ALL
    (SELECT id, finished_at FROM dilamme.jobs
      WHERE status = 'dead' AND priority = 3 AND finished_at IS NOT NULL AND (%(type)s::text IS NULL OR type = %(type)s)
      ORDER BY finished_at LIMIT %(most)s)
) AS dead
ORDER BY finished_at, id LIMIT %(most)s
