-- How a claim ends. Every block matches (id, attempt, token): a row that does not come back belongs to somebody else now.
-- The claims of one statement share attempt and token, so that the fence is two comparisons. The rival, a join to a list of
-- fences, compared each row with each: the planner expects one running row in the whole table. Values that differ by job
-- come as JSON objects by id, for the same reason. No row is locked beforehand: if somebody holds a lock (a caller's
-- transaction may hold a parent FOR SHARE for long), the use case's lock_timeout ends the statement, and the use case tries
-- in halves.

-- fragment: mine
-- The sub-select hides the array from the planner, which would else estimate the rows of each element.
WHERE job.id = ANY(ARRAY(SELECT unnest(%(ids)s::uuid[]))) AND job.status = 'running'
  AND job.attempt = %(attempt)s AND job.token = %(token)s

-- fragment: with_failure
-- The list of errors is bounded: a job that is replayed often loses its oldest errors.
errors = CASE WHEN jsonb_array_length(job.errors) >= 100 THEN job.errors - 0 ELSE job.errors END
    || ((%(failures)s::jsonb -> job.id::text) || jsonb_build_object('attempt', job.attempt, 'at', dilamme.clock()))

-- name: complete
-- The hot path: hundreds of jobs at a time, nearly always all of them ours and in no series. So only their number is
-- returned, and the jobs of a series. If some were not ours, all completed jobs are returned, to tell which.
WITH completed AS (
    UPDATE dilamme.jobs AS job
    SET status = 'completed', finished_at = dilamme.clock(), result = %(results)s::jsonb -> job.id::text,
        worker = NULL, token = NULL, lease_expires_at = NULL, unknown_since = NULL
-- include: mine
    RETURNING job.id, job.type, job.attempt, job.scheduled_at, job.series_id, job.replayed
),
tally AS (SELECT count(*) AS completed FROM completed)
SELECT tally.completed, job.*
FROM tally LEFT JOIN completed AS job
  ON job.series_id IS NOT NULL OR tally.completed < cardinality(%(ids)s::uuid[])

-- name: bury
UPDATE dilamme.jobs AS job
SET status = 'dead', finished_at = dilamme.clock(), worker = NULL, token = NULL, lease_expires_at = NULL,
-- include: with_failure
-- include: mine
RETURNING job.id, job.type, job.attempt, job.scheduled_at, job.series_id, job.replayed

-- name: retry
UPDATE dilamme.jobs AS job
SET status = 'pending',
    ready_at = dilamme.clock() + (%(delays)s::jsonb ->> job.id::text)::double precision * interval '1 second',
    worker = NULL, token = NULL, lease_expires_at = NULL, unknown_since = NULL,
-- include: with_failure
-- include: mine
RETURNING job.id

-- name: return_claim
-- The claim costs no attempt. Without a delay the job keeps its ready time, and so its position in line. A snoozed job, or
-- one of an unknown type, has a delay.
UPDATE dilamme.jobs AS job
SET status = 'pending', attempt = job.attempt - 1, started_at = CASE WHEN job.attempt > 1 THEN job.started_at END,
    ready_at = coalesce(dilamme.clock() + (%(delays)s::jsonb ->> job.id::text)::double precision * interval '1 second',
                        job.ready_at),
    unknown_since = CASE WHEN %(unknown)s::jsonb ? job.id::text THEN coalesce(job.unknown_since, dilamme.clock()) END,
    worker = NULL, token = NULL, lease_expires_at = NULL
-- include: mine
RETURNING job.id

-- name: held_by
-- The claims under a worker's token: after a lost COMMIT, or when the platform reports that worker lost. A job whose time is
-- over then was most likely the reason, or its worker would have recorded its end.
SELECT job.id, job.type, job.attempt, job.token, job.series_id,
       dilamme.clock() - job.started_at
           >= coalesce(job_type.timeout_seconds, %(timeout_seconds)s) * interval '1 second' AS overdue,
-- include: policy
FROM dilamme.jobs AS job
-- include: with_its_type
WHERE job.status = 'running' AND job.lease_expires_at IS NOT NULL AND job.worker = %(worker)s
ORDER BY job.id

-- name: expired
-- Claims whose lease has run out, whoever held them. It is longer than any timeout, and so tells nothing of it.
SELECT job.id, job.type, job.attempt, job.token, job.series_id, false AS overdue,
-- include: policy
FROM dilamme.jobs AS job
-- include: with_its_type
WHERE job.status = 'running' AND job.lease_expires_at <= dilamme.clock()
ORDER BY job.lease_expires_at LIMIT %(limit)s
