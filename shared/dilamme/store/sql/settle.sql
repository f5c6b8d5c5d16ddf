-- How a claim ends. Every block matches (id, attempt, token): zero rows means that somebody else owns the job now.
-- Rows are locked in id order, and locked rows are skipped (a caller's own transaction may hold a parent FOR SHARE for
-- long); the use case repeats what was skipped one by one, with the SKIP taken out.

-- fragment: mine
WITH settled AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(attempts)s::smallint[], %(tokens)s::uuid[]) AS s (id, attempt, token)
),
mine AS MATERIALIZED (
    SELECT job.id FROM dilamme.jobs AS job JOIN settled ON settled.id = job.id
    WHERE job.id = ANY(%(ids)s::uuid[])
      AND job.status = 'running' AND job.attempt = settled.attempt AND job.token = settled.token
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
)

-- fragment: with_failure
-- The list of errors is bounded: the oldest goes when a job has been replayed that often.
errors = CASE WHEN jsonb_array_length(job.errors) >= 100 THEN job.errors - 0 ELSE job.errors END
    || jsonb_build_object('reason', outcome.reason, 'message', outcome.message, 'attempt', job.attempt, 'at', dilamme.clock())

-- name: complete
-- The hot path: hundreds at a time, nearly always all ours and of no series. So the results come as one JSON array (an
-- array of jsonb costs a quoting of each), and only the exceptions go back: what was not ours, and what has a successor.
-- include: mine
,
completed AS (
    UPDATE dilamme.jobs AS job
    SET status = 'completed', finished_at = dilamme.clock(), result = nullif(outcome.result, 'null'),
        worker = NULL, token = NULL, lease_expires_at = NULL, unknown_since = NULL
    FROM ROWS FROM (unnest(%(ids)s::uuid[]), jsonb_array_elements(%(results)s::jsonb)) AS outcome (id, result)
    WHERE job.id = outcome.id AND job.id = ANY(ARRAY(SELECT id FROM mine)) AND job.status = 'running'
    RETURNING job.id, job.type, job.attempt, job.scheduled_at, job.series_id, job.replayed
)
SELECT settled.id, completed.id IS NOT NULL AS done, completed.type, completed.attempt, completed.scheduled_at,
       completed.series_id, completed.replayed
FROM settled LEFT JOIN completed ON completed.id = settled.id
WHERE completed.id IS NULL OR completed.series_id IS NOT NULL

-- name: bury
-- include: mine
UPDATE dilamme.jobs AS job
SET status = 'dead', finished_at = dilamme.clock(), worker = NULL, token = NULL, lease_expires_at = NULL,
-- include: with_failure
FROM unnest(%(ids)s::uuid[], %(reasons)s::text[], %(messages)s::text[]) AS outcome (id, reason, message)
WHERE job.id = outcome.id AND job.id = ANY(ARRAY(SELECT id FROM mine)) AND job.status = 'running'
RETURNING job.id, job.type, job.attempt, job.scheduled_at, job.series_id, job.replayed

-- name: retry
-- include: mine
UPDATE dilamme.jobs AS job
SET status = 'pending', ready_at = dilamme.clock() + outcome.delay_seconds * interval '1 second',
    worker = NULL, token = NULL, lease_expires_at = NULL, unknown_since = NULL,
-- include: with_failure
FROM unnest(%(ids)s::uuid[], %(reasons)s::text[], %(messages)s::text[], %(delays)s::double precision[])
    AS outcome (id, reason, message, delay_seconds)
WHERE job.id = outcome.id AND job.id = ANY(ARRAY(SELECT id FROM mine)) AND job.status = 'running'
RETURNING job.id

-- name: hand_back
-- The claim costs no attempt. Without a delay the job keeps its ready time, and so its place in line; a handler that
-- snoozed, or a type that nobody knows, comes back later.
-- include: mine
UPDATE dilamme.jobs AS job
SET status = 'pending', attempt = job.attempt - 1, started_at = CASE WHEN job.attempt > 1 THEN job.started_at END,
    ready_at = coalesce(dilamme.clock() + outcome.delay_seconds * interval '1 second', job.ready_at),
    unknown_since = CASE WHEN outcome.unknown THEN coalesce(job.unknown_since, dilamme.clock()) END,
    worker = NULL, token = NULL, lease_expires_at = NULL
FROM unnest(%(ids)s::uuid[], %(delays)s::double precision[], %(unknown)s::boolean[]) AS outcome (id, delay_seconds, unknown)
WHERE job.id = outcome.id AND job.id = ANY(ARRAY(SELECT id FROM mine)) AND job.status = 'running'
RETURNING job.id

-- name: carried_by
-- What runs under a worker's token: after a lost COMMIT, or when the platform reports that worker lost.
SELECT job.id, job.type, job.attempt, job.token, job.series_id,
       coalesce(job.max_attempts, job_type.max_attempts, %(max_attempts)s) AS max_attempts,
       coalesce(job_type.backoff_base_seconds, %(backoff_base_seconds)s) AS backoff_base_seconds,
       coalesce(job_type.backoff_cap_seconds, %(backoff_cap_seconds)s) AS backoff_cap_seconds
FROM dilamme.jobs AS job LEFT JOIN dilamme.job_types AS job_type ON job_type.type = job.type
WHERE job.status = 'running' AND job.lease_expires_at IS NOT NULL AND job.worker = %(worker)s
ORDER BY job.id

-- name: expired
-- Claims whose lease has run out, whoever held them.
SELECT job.id, job.type, job.attempt, job.token, job.series_id,
       coalesce(job.max_attempts, job_type.max_attempts, %(max_attempts)s) AS max_attempts,
       coalesce(job_type.backoff_base_seconds, %(backoff_base_seconds)s) AS backoff_base_seconds,
       coalesce(job_type.backoff_cap_seconds, %(backoff_cap_seconds)s) AS backoff_cap_seconds
FROM dilamme.jobs AS job LEFT JOIN dilamme.job_types AS job_type ON job_type.type = job.type
WHERE job.status = 'running' AND job.lease_expires_at <= dilamme.clock()
ORDER BY job.lease_expires_at LIMIT %(most)s

-- name: dependency_results
SELECT parent.id, parent.result
FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
WHERE edge.child_id = %(id)s
