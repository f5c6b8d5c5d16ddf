-- What can be asked. No statement reads more rows than its limits say, whatever the tables hold.

-- fragment: own
job.id, job.type, job.priority, job.status, job.scheduled_at, job.ready_at, job.created_at, job.started_at, job.finished_at,
job.attempt, job.series_id, job.on_dependency_failure, job.unmet_dependencies, job.errors -> -1 AS last_error,
dilamme.clock() AS now

-- fragment: own_at_length
-- Payload and result as text, to be read by `loads_kept`.
job.payload::text AS payload, job.result::text AS result, job.errors

-- fragment: outline
-- include: own
    , coalesce(job.max_attempts, job_type.max_attempts, %(max_attempts)s) AS max_attempts, series.interval_seconds

-- fragment: with_its_type_and_series
LEFT JOIN dilamme.job_types AS job_type ON job_type.type = job.type
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
-- The `few_` blocks: which jobs can a filter mean at all, if they are few enough to be sorted by age. The order is the
-- index's, so that the planner has no reason to read the table instead.
SELECT id FROM dilamme.jobs
WHERE status = %(status)s AND status IN ('completed', 'dead', 'cancelled') AND finished_at IS NOT NULL
ORDER BY status, priority, finished_at LIMIT %(most)s

-- name: few_running
SELECT id FROM dilamme.jobs WHERE status = 'running' AND lease_expires_at IS NOT NULL ORDER BY lease_expires_at LIMIT %(most)s

-- name: few_pending
(SELECT id FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies = 0
  ORDER BY priority, ready_at, created_at, id LIMIT %(most)s)
UNION ALL
(SELECT id FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies > 0 ORDER BY id LIMIT %(most)s)
LIMIT %(most)s

-- name: few_in_series
SELECT id FROM dilamme.jobs WHERE series_id = %(series_id)s ORDER BY series_id, scheduled_at LIMIT %(most)s

-- name: page_among
-- A page from the few.
SELECT
-- include: outline
FROM dilamme.jobs AS job
-- include: with_its_type_and_series
WHERE job.id = ANY(%(ids)s::uuid[]) AND job.id < %(before)s
  AND
-- include: filtered
ORDER BY job.id DESC LIMIT %(most)s

-- name: page_of_window
-- A page from the next `reach` jobs, newest first: with a filter that few of a million rows pass, a page may be short
-- or empty, and `window_end` says where the next one starts. It is looked up in the same snapshot, since retention may
-- delete rows of the window meanwhile, and only when the page is not full.
WITH page AS MATERIALIZED (
    SELECT id FROM (
        SELECT id, status, type, priority, series_id FROM dilamme.jobs
        WHERE id < %(before)s ORDER BY id DESC LIMIT %(reach)s) AS job
    WHERE
-- include: filtered
    ORDER BY id DESC LIMIT %(most)s
)
SELECT scanned.window_end,
-- include: outline
FROM (
    SELECT CASE WHEN (SELECT count(*) FROM page) < %(most)s THEN (
        SELECT id FROM dilamme.jobs WHERE id < %(before)s ORDER BY id DESC OFFSET %(reach)s - 1 LIMIT 1) END AS window_end
) AS scanned
LEFT JOIN page ON true
LEFT JOIN dilamme.jobs AS job ON job.id = page.id
-- include: with_its_type_and_series
ORDER BY job.id DESC

-- name: explain_job
-- All that can keep a job from running, but for its dependencies and its place in line.
SELECT
-- include: outline
    , job.worker, job.lease_expires_at, job.unknown_since, job_type.type IS NOT NULL AS type_is_known,
    (SELECT slot FROM dilamme.worker_slots WHERE token = job.worker) AS slot,
    lease.expires_at > dilamme.clock() AS scheduler_alive, lease.last_tick_at
FROM dilamme.jobs AS job
CROSS JOIN dilamme.scheduler_lease AS lease
-- include: with_its_type_and_series
WHERE job.id = %(id)s

-- name: waits_on
-- What it waits for, hopeless cases first.
SELECT parent.id, parent.status
FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
WHERE edge.child_id = %(id)s AND parent.status <> 'completed'
ORDER BY parent.status IN ('dead', 'cancelled') DESC, parent.id LIMIT %(most)s

-- name: count_ahead
-- One index range a lane, up to where domain/rank.py says that the jobs before this one end.
SELECT coalesce(sum(lane.ahead), 0)::integer AS ahead
FROM unnest(%(priorities)s::smallint[], %(ready_at)s::timestamptz[], %(created_at)s::timestamptz[], %(ids)s::uuid[])
    AS bound (priority, ready_at, created_at, id)
CROSS JOIN LATERAL (
    SELECT count(*) AS ahead FROM (
        SELECT FROM dilamme.jobs AS job
        WHERE job.priority = bound.priority AND job.status = 'pending' AND job.unmet_dependencies = 0
          AND (job.ready_at, job.created_at, job.id) < (bound.ready_at, bound.created_at, bound.id)
        ORDER BY job.ready_at, job.created_at, job.id LIMIT %(most)s) AS counted) AS lane

-- name: count_jobs
-- What one would act on is counted up to `most`, the rest up to `fewer`: each row costs a microsecond or two where
-- vacuum has not been yet. Blocked and running jobs have no index by priority: theirs are counted together, then told
-- apart.
SELECT 'ready' AS kind, lane.priority, counted.jobs, counted.jobs >= %(most)s AS capped
FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM dilamme.jobs WHERE priority = lane.priority AND status = 'pending' AND unmet_dependencies = 0
           AND ready_at <= dilamme.clock() ORDER BY ready_at, created_at, id LIMIT %(most)s) AS job) AS counted
UNION ALL
SELECT 'scheduled', lane.priority, counted.jobs, counted.jobs >= %(fewer)s
FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM dilamme.jobs WHERE priority = lane.priority AND status = 'pending' AND unmet_dependencies = 0
           AND ready_at > dilamme.clock() ORDER BY ready_at, created_at, id LIMIT %(fewer)s) AS job) AS counted
UNION ALL
SELECT 'blocked', lane.priority, count(job.priority), sum(count(job.priority)) OVER () >= %(fewer)s
FROM (VALUES (1), (2), (3)) AS lane (priority) LEFT JOIN (
    SELECT priority FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies > 0 ORDER BY id LIMIT %(fewer)s
) AS job ON job.priority = lane.priority
GROUP BY lane.priority
UNION ALL
SELECT 'running', lane.priority, count(job.priority), sum(count(job.priority)) OVER () >= %(fewer)s
FROM (VALUES (1), (2), (3)) AS lane (priority) LEFT JOIN (
    SELECT priority FROM dilamme.jobs WHERE status = 'running' AND lease_expires_at IS NOT NULL
    ORDER BY lease_expires_at LIMIT %(fewer)s
) AS job ON job.priority = lane.priority
GROUP BY lane.priority
UNION ALL
SELECT ended.status, lane.priority, counted.jobs, counted.jobs >= ended.most
FROM (VALUES ('completed', %(fewer)s), ('dead', %(most)s), ('cancelled', %(fewer)s)) AS ended (status, most)
CROSS JOIN (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM dilamme.jobs WHERE status = ended.status AND priority = lane.priority AND finished_at IS NOT NULL
        ORDER BY finished_at LIMIT ended.most) AS job) AS counted

-- name: pulse
SELECT dilamme.clock() AS at, expires_at > dilamme.clock() AS alive, last_tick_at,
       extract(epoch FROM dilamme.clock() - (
           SELECT min(head.ready_at) FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
               SELECT ready_at FROM dilamme.jobs
               WHERE priority = lane.priority AND status = 'pending' AND unmet_dependencies = 0
                 AND ready_at <= dilamme.clock()
               ORDER BY ready_at, created_at, id LIMIT 1) AS head))::double precision AS oldest_ready_seconds
FROM dilamme.scheduler_lease

-- name: any_dead
SELECT EXISTS (
    SELECT FROM dilamme.jobs WHERE status = 'dead' AND finished_at IS NOT NULL AND (%(type)s::text IS NULL OR type = %(type)s)
) AS found
