-- The jobs that can run, in the comparator's order: the three lanes, their heads, and the claim.

-- fragment: in_lane
-- A job is in its lane while it waits only for its time and a worker. The index jobs_lane has this condition.
status = 'pending' AND unmet_dependencies = 0

-- fragment: ready
-- include: in_lane
AND ready_at <= dilamme.clock()

-- fragment: still_ready
-- `ready` again, for the rows that a claim has chosen, under their locks. It says `<= 0`, not `= 0`: without statistics (in
-- the first minute of a burst) the planner would search the ids in the lanes' index, whose last column they are, and so
-- read every ready row. It cannot prove that this index serves `<=`.
job.status = 'pending' AND job.unmet_dependencies <= 0 AND job.ready_at <= dilamme.clock()

-- fragment: lane_heads
-- Inside one priority the index order is the effective order for every `now`, so the first n of the whole are among
-- the first n of each lane. Three index scans stop after n rows, whatever the backlog; they are planned as one.
SELECT head.id, head.priority, head.ready_at, head.created_at
FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT id, priority, ready_at, created_at FROM dilamme.jobs
    WHERE priority = lane.priority AND
-- include: ready
    ORDER BY ready_at, created_at, id LIMIT %(reach)s) AS head

-- fragment: effective
-- domain/priority.py's formula for priorities 1 to 3, as comparisons: from 3 to 1 there are two steps at most.
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
-- From `ordered` (the first `reach` of the exact order) lock the first `limit` that nobody holds, and claim them.
--
-- * SKIP LOCKED passes over the jobs that a rival is claiming. It does not prevent a second claim of a job that a rival
--   claimed *and committed* after our snapshot. The conditions beside the lock do: PostgreSQL checks them again on the
--   newest version of the row.
-- * NO KEY UPDATE, since a plain FOR UPDATE would conflict with the foreign keys' own locks.
-- * The gate looks at the parents themselves: the counter only keeps blocked rows out of the lanes.
-- * The claim stops before the payloads become more than `characters` together, but takes one job in any case: a worker has
--   little memory. The length of a payload is known without reading it, unless it is compressed.
-- * A job on its last attempt runs alone: the claim stops before the first such row, or takes it and nothing else. It
--   takes none while the worker has other jobs in hand. Such a job has a weight of its own, greater than any claim's: one
--   running sum stops at both, since each one costs a part of the claim.
-- * The ids go through arrays: a sub-select in the UPDATE's FROM may run twice and take more than its LIMIT, and a join
--   would allow the planner to read the whole table.
locked AS MATERIALIZED (
    SELECT job.id, job.ready_at, job.created_at,
           CASE WHEN job.attempt + 1 >=
-- include: attempts_allowed
                THEN 1000000000
                WHEN pg_column_compression(job.payload) IS NULL THEN pg_column_size(job.payload)
                ELSE octet_length(job.payload::text) END AS weight,
-- include: effective
    FROM dilamme.jobs AS job
-- include: with_its_type
    WHERE job.id = ANY(ARRAY(SELECT id FROM ordered)) AND
-- include: still_ready
      AND NOT EXISTS (
          SELECT FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
          WHERE edge.child_id = job.id AND parent.status <> 'completed')
    ORDER BY effective, job.ready_at, job.created_at, job.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
numbered AS (
    SELECT id, row_number() OVER everything AS number, sum(weight) OVER everything AS weight_so_far
    FROM locked
    WINDOW everything AS (ORDER BY effective, ready_at, created_at, id)
),
chosen AS (
    SELECT id FROM numbered
    WHERE weight_so_far <= %(characters)s OR number = 1 AND (weight_so_far < 1000000000 OR %(idle)s)
),
claimed AS (
    UPDATE dilamme.jobs AS job
    SET status = 'running', attempt = job.attempt + 1, started_at = dilamme.clock(), worker = %(worker)s,
        token = %(token)s, lease_expires_at = dilamme.clock() + %(lease)s::interval
    WHERE job.id = ANY(ARRAY(SELECT id FROM chosen)) AND job.status = 'pending'
    RETURNING job.id, job.type, job.payload_version, job.payload::text AS payload, job.priority, job.attempt, job.max_attempts, job.ready_at,
              job.created_at, job.started_at, job.series_id, job.unknown_since,
-- include: effective
)

-- fragment: claim_columns
-- In the order of `dilamme.domain.job.Claim`.
job.id, job.type, job.priority, job.attempt, allowed.attempts AS max_attempts, job.ready_at, job.started_at, job.series_id,
       job.unknown_since, job.attempt >= allowed.attempts AS last_attempt, job.payload_version, job.payload

-- fragment: in_claim_order
-- include: with_its_type
CROSS JOIN LATERAL (SELECT
-- include: attempts_allowed
    AS attempts) AS allowed
ORDER BY job.effective, job.ready_at, job.created_at, job.id

-- fragment: claims
SELECT
-- include: claim_columns
FROM claimed AS job
-- include: in_claim_order

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
-- As `claim`, among the ids that the scheduler's heap chose for this worker. A choice that is older than a tick, by the one
-- clock, is dropped: the order may have changed since.
WITH ordered AS MATERIALIZED (
    SELECT id FROM unnest(%(ids)s::uuid[]) AS handed (id)
    WHERE %(ticked_at)s::timestamptz >= dilamme.clock() - %(fresh)s::interval
),
-- include: take
-- include: claims

-- name: start_and_claim
-- `start` and the first `claim` in one: one round trip and one wait for the disk less before the first handler. Zero rows:
-- the slot is not ours, and nothing is claimed. One row of NULLs: the slot is ours, and there is nothing to claim.
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
FROM started LEFT JOIN claimed AS job ON true
-- include: in_claim_order

-- name: work_left
-- Is any job ready? A worker asks after it has freed its slot. By lanes, in their order: if many rows are ready, the planner
-- expects to meet one soon, and would read the table from its beginning, among the finished rows.
SELECT EXISTS (
-- include: lane_heads
) AS work_left

-- name: near_future
-- The jobs that fall due before the next tick, for the timing wheel, and the time, in one round trip. It begins at the
-- tick's `now`: a job that fell due since, while the tick invoked workers and did its maintenance, would else wait for the
-- next tick. It is bounded: more jobs than this at one instant are a backlog, and the next tick takes them up.
SELECT clock.now, job.id, job.ready_at
FROM (SELECT dilamme.clock() AS now) AS clock
LEFT JOIN LATERAL (
    SELECT id, ready_at FROM dilamme.jobs
    WHERE priority IN (1, 2, 3) AND
-- include: in_lane
      AND ready_at > %(since)s AND ready_at <= dilamme.clock() + %(ahead)s::interval
    LIMIT %(limit)s) AS job ON true
