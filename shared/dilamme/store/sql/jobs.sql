-- Storing jobs.

-- name: take_key
-- The unique index makes a rival with the same key wait here: if it commits, no row comes back and `find_key` shows
-- its jobs; if it rolls back, the key is ours.
INSERT INTO dilamme.idempotency_keys (key, request_hash, job_ids, refs)
VALUES (%(key)s, %(request_hash)s, %(job_ids)s::uuid[], %(refs)s)
ON CONFLICT (key) DO NOTHING
RETURNING key

-- name: find_key
SELECT request_hash, job_ids, refs FROM dilamme.idempotency_keys WHERE key = %(key)s

-- name: lock_parents
-- FOR SHARE holds off the parent's completion until the edge is committed: a completion that looked for children a
-- moment earlier would miss this one, which then waited for ever.
SELECT id, status FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR SHARE

-- name: insert_series
INSERT INTO dilamme.series (id, interval_seconds, created_at)
SELECT s.id, s.interval_seconds, dilamme.clock()
FROM unnest(%(ids)s::uuid[], %(interval_seconds)s::integer[]) AS s (id, interval_seconds)

-- fragment: new_jobs
-- One statement, so that a batch shares one creation time and its ids (UUIDv7) keep its order. A time in the past buys
-- no priority: the job is ready from now. What most jobs do not have is NULL, which costs nothing on the way here.
INSERT INTO dilamme.jobs AS job (
    id, type, status, priority, max_attempts, unmet_dependencies, on_dependency_failure, created_at, scheduled_at,
    ready_at, finished_at, series_id, idempotency_key, payload, errors
)
SELECT s.id, s.type, CASE WHEN s.failure IS NULL THEN 'pending' ELSE 'cancelled' END, s.priority, s.max_attempts,
       coalesce(s.unmet, 0), coalesce(s.policy, 'wait'), dilamme.clock(), coalesce(s.scheduled_at, dilamme.clock()),
       greatest(s.scheduled_at, dilamme.clock()), CASE WHEN s.failure IS NOT NULL THEN dilamme.clock() END, s.series_id,
       %(idempotency_key)s, s.payload,
       CASE WHEN s.failure IS NULL THEN '[]' ELSE jsonb_build_array(jsonb_build_object(
           'reason', 'dependency_failed', 'message', s.failure, 'attempt', 0, 'at', dilamme.clock())) END
FROM unnest(
    %(ids)s::uuid[], %(types)s::text[], %(priorities)s::smallint[], %(max_attempts)s::smallint[], %(unmet)s::integer[],
    %(policies)s::text[], %(scheduled_at)s::timestamptz[], %(series_ids)s::uuid[], %(payloads)s::jsonb[],
    %(failures)s::text[]
) AS s (id, type, priority, max_attempts, unmet, policy, scheduled_at, series_id, payload, failure)

-- fragment: is_free_and_due
status = 'pending' AND unmet_dependencies = 0 AS free, ready_at <= dilamme.clock() AS due

-- name: insert
-- include: new_jobs
RETURNING
-- include: is_free_and_due

-- name: insert_one
-- Who posts a job is shown it as `find_job` would, without a second look. The type's attempts by a subquery, which costs
-- the planner less than the join there.
-- include: new_jobs
RETURNING
-- include: is_free_and_due
    ,
-- include: own
    ,
-- include: own_at_length
    , coalesce(job.max_attempts, (
        SELECT job_type.max_attempts FROM dilamme.job_types AS job_type WHERE job_type.type = job.type)) AS max_attempts

-- name: insert_edges
INSERT INTO dilamme.job_dependencies (child_id, parent_id)
SELECT e.child_id, e.parent_id FROM unnest(%(child_ids)s::uuid[], %(parent_ids)s::uuid[]) AS e (child_id, parent_id)
