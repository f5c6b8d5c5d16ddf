-- Retention: what ended long enough ago is deleted, in bounded steps.

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
    ORDER BY job.finished_at LIMIT %(limit)s
    FOR UPDATE OF job SKIP LOCKED) AS ended
LIMIT %(limit)s

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
