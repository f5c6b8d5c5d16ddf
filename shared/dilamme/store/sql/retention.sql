-- The leader's bounded chores: the sweep over counters, and retention.

-- name: sweep
-- Rows whose counter disagrees with their parents: blocked ones after the sweep's cursor, and heads of the lanes (which the
-- gate would refuse at every claim). One snapshot shows a completion and its release together or not at all, so what
-- is found here is real; nothing should ever be.
WITH head AS (
-- include: lane_heads
),
checked AS MATERIALIZED (
    SELECT id FROM (
        SELECT id FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies > 0
           AND id > coalesce((SELECT swept_to FROM dilamme.scheduler_lease), '00000000-0000-0000-0000-000000000000')
        ORDER BY id LIMIT %(reach)s) AS blocked
    UNION
    SELECT id FROM head
)
SELECT job.id, job.unmet_dependencies > 0 AS blocked, job.unmet_dependencies <> (
    SELECT count(*) FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
    WHERE edge.child_id = job.id AND parent.status <> 'completed') AS disagrees
FROM dilamme.jobs AS job WHERE job.id = ANY(ARRAY(SELECT id FROM checked))
ORDER BY job.id

-- name: mend
-- With the parents locked FOR SHARE, so that none completes between the count and the write.
UPDATE dilamme.jobs AS job
SET unmet_dependencies = counted.unmet, ready_at = greatest(job.ready_at, dilamme.clock())
FROM (
    SELECT child.id, (
        SELECT count(*) FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
        WHERE edge.child_id = child.id AND parent.status <> 'completed') AS unmet
    FROM unnest(%(ids)s::uuid[]) AS child (id)) AS counted
WHERE job.id = counted.id AND job.status = 'pending' AND job.unmet_dependencies <> counted.unmet
RETURNING job.id

-- name: lock_prunable
-- FOR UPDATE, the one strength that keeps a new child's foreign key out while we look for living ones. By index, oldest
-- first. A scalar sub-select, since the planner would make of NOT EXISTS a join that reads every edge there is; and
-- coalesce, since it takes IS NULL for so rare that it would read and sort all that has ended.
SELECT ended.id
FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT job.id FROM dilamme.jobs AS job
    WHERE job.status = %(status)s AND job.priority = lane.priority
      AND job.finished_at <= dilamme.clock() - %(keep)s::interval
      AND NOT coalesce((
          SELECT true FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS child ON child.id = edge.child_id
          WHERE edge.parent_id = job.id AND child.status IN ('pending', 'running')
          ORDER BY edge.parent_id, edge.child_id LIMIT 1), false)
    ORDER BY job.finished_at LIMIT %(most)s
    FOR UPDATE OF job SKIP LOCKED) AS ended
LIMIT %(most)s

-- name: prune_edges
-- A second statement: its snapshot is younger than the locks, so it sees the child that came in between.
DELETE FROM dilamme.job_dependencies AS edge
WHERE edge.parent_id = ANY(%(ids)s::uuid[]) AND NOT EXISTS (
    SELECT FROM dilamme.job_dependencies AS other JOIN dilamme.jobs AS child ON child.id = other.child_id
    WHERE other.parent_id = edge.parent_id AND child.status IN ('pending', 'running'))

-- name: prune
-- The state again, since a dead job may have been replayed since it was chosen.
DELETE FROM dilamme.jobs AS job
WHERE job.id = ANY(%(ids)s::uuid[]) AND job.status = %(status)s AND job.finished_at <= dilamme.clock() - %(keep)s::interval
  AND NOT EXISTS (SELECT FROM dilamme.job_dependencies AS edge WHERE edge.parent_id = job.id)
RETURNING job.id, job.idempotency_key, job.series_id

-- name: prune_keys
DELETE FROM dilamme.idempotency_keys AS taken
WHERE taken.key = ANY(%(keys)s::text[])
  AND NOT EXISTS (SELECT FROM dilamme.jobs WHERE jobs.idempotency_key = taken.key)

-- name: prune_series
DELETE FROM dilamme.series
WHERE series.id = ANY(%(ids)s::uuid[]) AND NOT EXISTS (SELECT FROM dilamme.jobs WHERE jobs.series_id = series.id)
