-- Questions about jobs. No statement reads more rows than its limits allow, however large the tables are.

-- fragment: own
-- include: listed_columns
, job.id, job.status, job.scheduled_at, job.ready_at, job.created_at, job.started_at, job.finished_at,
job.attempt, job.series_id, job.unmet_dependencies, job.errors -> -1 AS last_error,
dilamme.clock() AS now

-- fragment: own_at_length
-- Payload and result as text, to be read by `loads_kept`.
job.payload::text AS payload, job.payload_version, job.result::text AS result, job.errors

-- fragment: outline
-- include: own
    ,
-- include: attempts_allowed
    AS max_attempts, series.interval_seconds

-- fragment: with_its_type_and_series
-- include: with_its_type
LEFT JOIN dilamme.series ON series.id = job.series_id

-- fragment: filtered
(%(status)s::text IS NULL OR job.status = %(status)s)
AND (%(type)s::text IS NULL OR job.type = %(type)s)
AND (%(priority)s::smallint IS NULL OR job.priority = %(priority)s)
AND (%(series_id)s::uuid IS NULL OR job.series_id = %(series_id)s)

-- name: find_job
SELECT
-- include: outline
    ,
-- include: own_at_length
    , ARRAY(SELECT parent_id FROM dilamme.job_dependencies WHERE child_id = job.id ORDER BY parent_id) AS dependency_ids
FROM dilamme.jobs AS job
-- include: with_its_type_and_series
WHERE job.id = %(id)s

-- name: statuses_of
SELECT id, status FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[])

-- name: few_finished
-- The `few_` blocks give the jobs of a status or series, if they are few enough to be sorted by age. They ask for the
-- index's own order, so that the planner has no reason to read the table instead.
SELECT id FROM dilamme.jobs
WHERE status = %(status)s AND status IN ('completed', 'dead', 'cancelled') AND finished_at IS NOT NULL
ORDER BY status, priority, finished_at LIMIT %(limit)s

-- name: few_running
SELECT id FROM dilamme.jobs WHERE status = 'running' AND lease_expires_at IS NOT NULL ORDER BY lease_expires_at LIMIT %(limit)s

-- name: few_pending
(SELECT id FROM dilamme.jobs WHERE
-- include: in_lane
  ORDER BY priority, ready_at, created_at, id LIMIT %(limit)s)
UNION ALL
(SELECT id FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies > 0 ORDER BY id LIMIT %(limit)s)
LIMIT %(limit)s

-- name: few_in_series
SELECT id FROM dilamme.jobs WHERE series_id = %(series_id)s ORDER BY series_id, scheduled_at LIMIT %(limit)s

-- name: page_among
-- A page of the jobs that a `few_` block gave.
SELECT
-- include: outline
FROM dilamme.jobs AS job
-- include: with_its_type_and_series
WHERE job.id = ANY(%(ids)s::uuid[]) AND job.id < %(before)s
  AND
-- include: filtered
ORDER BY job.id DESC LIMIT %(limit)s

-- name: page_of_window
-- A page from the next `reach` jobs, newest first. If few of a million rows pass the filter, a page may be short or empty;
-- `window_end` then says where the next page starts. It is read in the same snapshot, since retention may delete rows of
-- the window meanwhile, and only if the page is not full.
WITH page AS MATERIALIZED (
    SELECT id FROM (
        SELECT id, status, type, priority, series_id FROM dilamme.jobs
        WHERE id < %(before)s ORDER BY id DESC LIMIT %(reach)s) AS job
    WHERE
-- include: filtered
    ORDER BY id DESC LIMIT %(limit)s
)
SELECT scanned.window_end,
-- include: outline
FROM (
    SELECT CASE WHEN (SELECT count(*) FROM page) < %(limit)s THEN (
        SELECT id FROM dilamme.jobs WHERE id < %(before)s ORDER BY id DESC OFFSET %(reach)s - 1 LIMIT 1) END AS window_end
) AS scanned
LEFT JOIN page ON true
LEFT JOIN dilamme.jobs AS job ON job.id = page.id
-- include: with_its_type_and_series
ORDER BY job.id DESC

-- name: explain_job
-- Everything that can keep a job from running, except its dependencies and its position in line.
SELECT
-- include: outline
    , job.worker, job.lease_expires_at, job.unknown_since, job_type.type IS NOT NULL AS type_is_known,
    job.payload_version, coalesce(job_type.version, 1) AS version_known,
    (SELECT slot FROM dilamme.worker_slots WHERE token = job.worker) AS slot,
    lease.expires_at > dilamme.clock() AS scheduler_alive, lease.last_tick_at
FROM dilamme.jobs AS job
CROSS JOIN dilamme.scheduler_lease AS lease
-- include: with_its_type_and_series
WHERE job.id = %(id)s

-- name: waits_on
-- The dependencies that have not completed, dead and cancelled ones first.
SELECT parent.id, parent.status
FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
WHERE edge.child_id = %(id)s AND parent.status <> 'completed'
ORDER BY parent.status IN ('dead', 'cancelled') DESC, parent.id LIMIT %(limit)s

-- name: count_ahead
-- The jobs ahead of a given one: one index range a lane, up to the bound that domain/queue_position.py gives.
SELECT coalesce(sum(lane.ahead), 0)::integer AS ahead
FROM unnest(%(priorities)s::smallint[], %(ready_at)s::timestamptz[], %(created_at)s::timestamptz[], %(ids)s::uuid[])
    AS bound (priority, ready_at, created_at, id)
CROSS JOIN LATERAL (
    SELECT count(*) AS ahead FROM (
        SELECT FROM dilamme.jobs AS job
        WHERE job.priority = bound.priority AND
-- include: in_lane
          AND (job.ready_at, job.created_at, job.id) < (bound.ready_at, bound.created_at, bound.id)
        ORDER BY job.ready_at, job.created_at, job.id LIMIT %(limit)s) AS counted) AS lane
