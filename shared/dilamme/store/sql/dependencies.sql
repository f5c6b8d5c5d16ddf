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
-- With the first results, as far as they are no more than `characters` together. The length of one is known without reading
-- it, unless it is compressed.
SELECT id, sum(length) OVER first <= %(characters)s AS is_here,
       CASE WHEN sum(length) OVER first <= %(characters)s THEN result END AS result
FROM (
    SELECT parent.id, parent.result, CASE WHEN parent.result IS NULL THEN 0
               WHEN pg_column_compression(parent.result) IS NULL THEN pg_column_size(parent.result)
               ELSE octet_length(parent.result::text) END AS length
    FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
    WHERE edge.child_id = %(id)s) AS parent
WINDOW first AS (ORDER BY id)

-- name: dependency_result
SELECT parent.result
FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
WHERE edge.child_id = %(id)s AND edge.parent_id = %(parent_id)s

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

-- fragment: is_to_be_cancelled
(SELECT job.status = 'pending' AND job.on_dependency_failure = 'cancel' FROM dilamme.jobs AS job WHERE job.id = edge.child_id)

-- name: cancel_dependents
-- Up to `limit` of the descendants that asked for it, generation by generation; of the first, those after `after`, in order.
-- The recursion is read row by row, and stops at the limit. OFFSET 0 keeps the planner from joining: it cannot know how few
-- rows a step has, and would read all edges. The pair is compared with `after`, not the child's id alone: else the planner
-- may take the primary key, where the children of one job do not stand together. A child that is being stored under a job on
-- the way is not seen here: `note_cascades` looks for it. `found` counts those too that somebody else cancelled meanwhile.
WITH RECURSIVE descendant (id, after) AS (
    SELECT ended.id, %(after)s::uuid FROM unnest(%(ids)s::uuid[]) AS ended (id)
    UNION
    SELECT child.id, '00000000-0000-0000-0000-000000000000' FROM descendant CROSS JOIN LATERAL (
        SELECT edge.child_id AS id FROM dilamme.job_dependencies AS edge
        WHERE edge.parent_id = descendant.id AND (edge.parent_id, edge.child_id) > (descendant.id, descendant.after) AND
-- include: is_to_be_cancelled
        ORDER BY edge.child_id OFFSET 0) AS child
),
chosen AS MATERIALIZED (
    SELECT id FROM descendant OFFSET cardinality(%(ids)s::uuid[]) LIMIT %(limit)s
),
cancelled AS (
    UPDATE dilamme.jobs AS job
    SET status = 'cancelled', finished_at = dilamme.clock(), errors = job.errors || jsonb_build_object(
            'reason', 'dependency_failed', 'message', 'a job that it depends on is dead or cancelled',
            'attempt', job.attempt, 'at', dilamme.clock())
    WHERE job.status = 'pending' AND job.id = ANY(ARRAY(
        SELECT child.id FROM dilamme.jobs AS child
        WHERE child.id = ANY(ARRAY(SELECT id FROM chosen)) AND child.status = 'pending'
          AND child.on_dependency_failure = 'cancel'
        ORDER BY child.id FOR NO KEY UPDATE))
    RETURNING job.id, job.series_id
)
SELECT tally.found, cancelled.id, cancelled.series_id, EXISTS (
    SELECT FROM dilamme.job_dependencies AS edge
    WHERE edge.child_id = cancelled.id AND edge.parent_id = ANY(%(ids)s::uuid[])) AS is_child
FROM (SELECT count(*) AS found FROM chosen) AS tally LEFT JOIN cancelled ON true

-- name: note_cascades
-- Which of these ended jobs have a child left that asked to be cancelled? A statement of its own, after the jobs' rows are
-- locked: its snapshot sees every child whose insertion held those locks before us.
INSERT INTO dilamme.cascades (job_id, after)
SELECT ended.id, ended.after FROM unnest(%(ids)s::uuid[], %(after)s::uuid[]) AS ended (id, after)
WHERE (SELECT true FROM dilamme.job_dependencies AS edge
       WHERE edge.parent_id = ended.id AND (edge.parent_id, edge.child_id) > (ended.id, ended.after) AND
-- include: is_to_be_cancelled
       ORDER BY edge.child_id LIMIT 1)
ON CONFLICT DO NOTHING
RETURNING job_id

-- name: take_cascades
-- Up to `limit` that are at their beginning, or else one that is not. In no order: one whose jobs somebody holds must not
-- stand in the way of the others.
WITH picked AS MATERIALIZED (
    SELECT job_id, after = '00000000-0000-0000-0000-000000000000' AS is_at_its_beginning
    FROM dilamme.cascades ORDER BY is_at_its_beginning DESC, random() LIMIT %(limit)s
)
DELETE FROM dilamme.cascades WHERE job_id = ANY(ARRAY(
    SELECT job_id FROM picked WHERE is_at_its_beginning
    UNION ALL
    (SELECT job_id FROM picked WHERE NOT EXISTS (SELECT FROM picked WHERE is_at_its_beginning) LIMIT 1)))
RETURNING job_id, after

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
