-- Retention: jobs that ended long enough ago are deleted, in bounded steps.

-- name: lock_prunable
-- FOR UPDATE is the one strength that keeps a new child's foreign key out while we look for live children. By index,
-- oldest first. A scalar sub-select, since the planner would turn NOT EXISTS into a join that reads every edge. And
-- coalesce, since the planner takes IS NULL to be so rare that it would read and sort all ended jobs.
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
-- A statement of its own: its snapshot is younger than the locks, so it sees a child that came in between.
DELETE FROM dilamme.job_dependencies AS edge
WHERE edge.parent_id = ANY(%(ids)s::uuid[]) AND NOT EXISTS (
    SELECT FROM dilamme.job_dependencies AS other JOIN dilamme.jobs AS child ON child.id = other.child_id
    WHERE other.parent_id = edge.parent_id AND child.status IN ('pending', 'running'))

-- name: prune
-- Checks the state again, since a dead job may have been replayed since it was chosen.
DELETE FROM dilamme.jobs AS job
WHERE job.id = ANY(%(ids)s::uuid[]) AND job.status = %(status)s AND job.finished_at <= dilamme.clock() - %(keep)s::interval
  AND NOT EXISTS (SELECT FROM dilamme.job_dependencies AS edge WHERE edge.parent_id = job.id)
RETURNING job.id, job.idempotency_key, job.series_id
