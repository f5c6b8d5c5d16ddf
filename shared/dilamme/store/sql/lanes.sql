-- What can run, in the comparator's order: the three lanes, their heads, and the claim.

-- fragment: lane_heads
-- Inside one priority the index order is the effective order for every `now`, so the first n of the whole are among
-- the first n of each lane. Three index scans that stop after n rows, whatever the backlog; planned as one.
SELECT head.id, head.priority, head.ready_at, head.created_at
FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT id, priority, ready_at, created_at FROM dilamme.jobs
    WHERE priority = lane.priority AND status = 'pending' AND unmet_dependencies = 0 AND ready_at <= dilamme.clock()
    ORDER BY ready_at, created_at, id LIMIT %(reach)s) AS head

-- fragment: effective
-- domain/priority.py's formula for priorities 1 to 3, as comparisons: two steps at the most lead from 3 to 1.
greatest(1, job.priority
    - (job.ready_at <= coalesce(dilamme.clock() - %(ageing)s::interval, '-infinity'))::integer
    - (job.ready_at <= coalesce(dilamme.clock() - 2 * %(ageing)s::interval, '-infinity'))::integer)
    AS effective

-- fragment: ordered
ordered AS MATERIALIZED (
    SELECT job.id,
-- include: effective
    FROM head AS job ORDER BY effective, job.ready_at, job.created_at, job.id LIMIT %(reach)s
),

-- fragment: take
-- From `ordered` (the first `reach` of the exact order) lock the first `most` that nobody holds, and claim them.
--
-- * SKIP LOCKED passes what a rival is claiming; what a rival claimed *and committed* since our snapshot is refused
--   by the conditions beside the lock, which PostgreSQL checks again on the newest version of the row.
-- * NO KEY UPDATE, since a plain FOR UPDATE would meet the foreign keys' own locks.
-- * The gate looks at the parents themselves: the counter only keeps blocked rows out of the lanes.
-- * A job on its last attempt runs alone: the claim stops before the first such row, or takes it and nothing else,
--   and not at all while the worker has others in hand.
-- * The ids go through arrays: a sub-select in the UPDATE's FROM may be run twice and take more than its LIMIT, and a
--   join would leave the planner free to read the whole table.
-- * `<= 0`, not `= 0`: without statistics (the first minute of a burst) the planner would look for the ids in the lanes'
--   index, whose last column they are, and so read every ready row. It cannot prove that this index holds for `<=`.
locked AS MATERIALIZED (
    SELECT job.id, job.ready_at, job.created_at,
           job.attempt + 1 >= coalesce(job.max_attempts, job_type.max_attempts, %(max_attempts)s) AS last_attempt,
-- include: effective
    FROM dilamme.jobs AS job
    LEFT JOIN dilamme.job_types AS job_type ON job_type.type = job.type
    WHERE job.id = ANY(ARRAY(SELECT id FROM ordered))
      AND job.status = 'pending' AND job.unmet_dependencies <= 0 AND job.ready_at <= dilamme.clock()
      AND NOT EXISTS (
          SELECT FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
          WHERE edge.child_id = job.id AND parent.status <> 'completed')
    ORDER BY effective, job.ready_at, job.created_at, job.id
    LIMIT %(most)s
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
numbered AS (
    SELECT id, last_attempt, row_number() OVER everything AS place,
           count(*) FILTER (WHERE last_attempt) OVER everything AS last_attempts_so_far
    FROM locked
    WINDOW everything AS (ORDER BY effective, ready_at, created_at, id)
),
chosen AS (
    SELECT id FROM numbered
    WHERE last_attempts_so_far = 0 OR (place = 1 AND %(idle)s)
),
claimed AS (
    UPDATE dilamme.jobs AS job
    SET status = 'running', attempt = job.attempt + 1, started_at = dilamme.clock(), worker = %(worker)s,
        token = %(token)s, lease_expires_at = dilamme.clock() + %(lease)s::interval
    WHERE job.id = ANY(ARRAY(SELECT id FROM chosen)) AND job.status = 'pending'
    RETURNING job.id, job.type, job.payload::text AS payload, job.priority, job.attempt, job.max_attempts, job.ready_at,
              job.created_at, job.started_at, job.series_id, job.unknown_since,
-- include: effective
)

-- fragment: claim_columns
claimed.id, claimed.type, claimed.priority, claimed.attempt, most.attempts AS max_attempts, claimed.ready_at,
       claimed.started_at, claimed.series_id, claimed.unknown_since, claimed.attempt >= most.attempts AS last_attempt,
       claimed.payload

-- fragment: in_order
LEFT JOIN dilamme.job_types AS job_type ON job_type.type = claimed.type
CROSS JOIN LATERAL (
    SELECT coalesce(claimed.max_attempts, job_type.max_attempts, %(max_attempts)s) AS attempts) AS most
ORDER BY claimed.effective, claimed.ready_at, claimed.created_at, claimed.id

-- fragment: claims
SELECT
-- include: claim_columns
FROM claimed
-- include: in_order

-- name: lane_heads
-- include: lane_heads

-- name: claim
WITH head AS MATERIALIZED (
-- include: lane_heads
),
-- include: ordered
-- include: take
-- include: claims

-- name: claim_handed
-- As `claim`, among the ids that the scheduler's heap chose for this worker; unless the choice is older than a tick,
-- by the one clock: the order may have changed since.
WITH ordered AS MATERIALIZED (
    SELECT id FROM unnest(%(ids)s::uuid[]) AS handed (id)
    WHERE %(ticked_at)s::timestamptz >= dilamme.clock() - %(fresh)s::interval
),
-- include: take
-- include: claims

-- name: start_and_claim
-- `start` and the first `claim` in one: a round trip and a wait for the disk fewer before the first handler. Zero rows:
-- the slot is not ours, and nothing is claimed. One row of NULLs: it is, and there is nothing to claim.
WITH started AS MATERIALIZED (
-- include: start
),
head AS MATERIALIZED (
    SELECT head.* FROM started CROSS JOIN (
-- include: lane_heads
    ) AS head
),
-- include: ordered
-- include: take
SELECT
-- include: claim_columns
FROM started LEFT JOIN claimed ON true
-- include: in_order

-- name: work_left
-- Is anything claimable? The look after a worker has let go of its slot. By lanes and in their order: where many rows
-- are ready, the planner takes any to be near, and reads the table from its beginning, where the finished ones lie.
SELECT EXISTS (
-- include: lane_heads
) AS work_left

-- name: near_future
-- What falls due before the next tick, for the timing wheel; with the time, in one round trip. From the tick's own look
-- on: what has fallen due since, while it called workers and did its chores, would else wait for the next. Bounded: more
-- than this at one instant is a backlog, which the next tick takes up.
SELECT clock.now, job.id, job.ready_at
FROM (SELECT dilamme.clock() AS now) AS clock
LEFT JOIN LATERAL (
    SELECT id, ready_at FROM dilamme.jobs
    WHERE priority IN (1, 2, 3) AND status = 'pending' AND unmet_dependencies = 0
      AND ready_at > %(since)s AND ready_at <= dilamme.clock() + %(ahead)s::interval
    LIMIT %(most)s) AS job ON true
