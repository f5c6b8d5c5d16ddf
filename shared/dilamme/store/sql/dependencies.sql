-- The edges of the DAG, and the counters of what a job still waits for.

-- name: lock_parents
-- FOR SHARE holds off the parent's completion until the edge is committed. Else a completion that looked for children a
-- moment earlier would miss this child, and it would wait for ever.
SELECT id, status FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR SHARE

-- name: insert_edges
INSERT INTO dilamme.job_dependencies (child_id, parent_id)
SELECT e.child_id, e.parent_id FROM unnest(%(child_ids)s::uuid[], %(parent_ids)s::uuid[]) AS e (child_id, parent_id)

-- name: edges_of
SELECT child_id, parent_id FROM dilamme.job_dependencies WHERE child_id = ANY(%(ids)s::uuid[])

-- name: dependency_results
SELECT parent.id, parent.result
FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
WHERE edge.child_id = %(id)s

-- name: release
-- A statement of its own, after the parents' rows are locked: its snapshot sees every child whose insertion held those
-- locks before us. A child of several of these parents is counted down by their number at once.
-- Only the last parent moves the ready time. If each did, the last could find a time that another statement wrote, which
-- began later and got the child's lock first: it would take it for the future, and report nobody the child as due.
WITH freed AS MATERIALIZED (
    SELECT child_id, count(*) AS parents FROM dilamme.job_dependencies
    WHERE parent_id = ANY(%(ids)s::uuid[]) GROUP BY child_id
),
locked AS MATERIALIZED (
    SELECT job.id FROM dilamme.jobs AS job
    WHERE job.id = ANY(ARRAY(SELECT child_id FROM freed)) AND job.status = 'pending' AND job.unmet_dependencies > 0
    ORDER BY job.id FOR NO KEY UPDATE
)
UPDATE dilamme.jobs AS job
SET unmet_dependencies = job.unmet_dependencies - freed.parents,
    ready_at = CASE WHEN job.unmet_dependencies = freed.parents THEN greatest(job.ready_at, dilamme.clock()) ELSE job.ready_at END
FROM freed
WHERE job.id = freed.child_id AND job.id = ANY(ARRAY(SELECT id FROM locked))
  AND job.status = 'pending' AND job.unmet_dependencies >= freed.parents
RETURNING job.unmet_dependencies = 0 AS free, job.ready_at <= dilamme.clock() AS due

-- name: cancel_dependents
-- One generation of the dependents that asked for it. The use case repeats it for the jobs that come back.
UPDATE dilamme.jobs AS job
SET status = 'cancelled', finished_at = dilamme.clock(), errors = job.errors || jsonb_build_object(
        'reason', 'dependency_failed', 'message', 'a job that it depends on is dead or cancelled',
        'attempt', job.attempt, 'at', dilamme.clock())
WHERE job.status = 'pending' AND job.id = ANY(ARRAY(
    SELECT child.id FROM dilamme.jobs AS child
    WHERE child.status = 'pending' AND child.on_dependency_failure = 'cancel' AND child.id IN (
        SELECT child_id FROM dilamme.job_dependencies WHERE parent_id = ANY(%(ids)s::uuid[]))
    ORDER BY child.id FOR NO KEY UPDATE))
RETURNING job.id, job.series_id

-- name: sweep
-- Compares counters with parents: of blocked jobs after the sweep's cursor, and of the heads of the lanes, since the gate
-- would refuse a wrong one there at every claim. One snapshot shows a completion and its release together or not at all,
-- so each difference is a real fault. None should ever be found.
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
