-- At most N workers: free -> invited -> started -> free, each step a compare-and-set on the token. A slot is `invited` while
-- it is reserved for a worker that has been invoked and has yet to come.

-- name: provide_slots
INSERT INTO dilamme.worker_slots (slot) SELECT generate_series(1, %(slots)s::integer) ON CONFLICT DO NOTHING

-- name: remove_slots
DELETE FROM dilamme.worker_slots WHERE slot > %(slots)s AND state = 'free'

-- name: reserve
-- One slot for each token, as long as slots are free. Slots that a rival is taking are passed over, not waited for.
WITH free AS MATERIALIZED (
    SELECT slot FROM dilamme.worker_slots WHERE state = 'free' AND slot <= %(slots)s
    ORDER BY slot LIMIT cardinality(%(tokens)s::uuid[]) FOR UPDATE SKIP LOCKED
),
dealt AS (
    SELECT slot, (%(tokens)s::uuid[])[row_number() OVER (ORDER BY slot)] AS token FROM free
)
UPDATE dilamme.worker_slots AS worker_slot
SET state = 'invited', token = dealt.token, held_until = dilamme.clock() + %(hold)s::interval
FROM dealt
WHERE worker_slot.slot = dealt.slot AND worker_slot.state = 'free'
RETURNING worker_slot.slot, worker_slot.token

-- fragment: is_the_first_free
state = 'free' AND slot = (
    SELECT slot FROM dilamme.worker_slots WHERE state = 'free' AND slot <= %(slots)s
    ORDER BY slot LIMIT 1 FOR UPDATE SKIP LOCKED)

-- name: reserve_or_look
-- Two questions in one round trip, after a job has become due: is there a slot for a worker, and does a scheduler lead?
WITH reserved AS (
    UPDATE dilamme.worker_slots
    SET state = 'invited', token = %(token)s, held_until = dilamme.clock() + %(hold)s::interval
    WHERE
-- include: is_the_first_free
    RETURNING slot
)
SELECT (SELECT slot FROM reserved) AS slot, leader.nobody_leads,
-- include: unflushed
FROM (
-- include: whether_nobody_leads
) AS leader

-- fragment: start
-- Zero rows: the event came twice, or too late. The worker then leaves and claims nothing.
UPDATE dilamme.worker_slots SET state = 'started', held_until = dilamme.clock() + %(lease)s::interval
WHERE slot = %(slot)s AND token = %(worker)s AND state = 'invited'
RETURNING slot

-- name: start
-- include: start

-- name: holds
SELECT EXISTS (SELECT FROM dilamme.worker_slots WHERE token = %(token)s AND state = 'started') AS holds

-- name: retake
-- A worker that freed its slot and then saw work takes a slot again, under its old token: if this invocation is lost, the
-- platform's report has that token.
UPDATE dilamme.worker_slots SET state = 'started', token = %(token)s, held_until = dilamme.clock() + %(hold)s::interval
WHERE
-- include: is_the_first_free
RETURNING slot

-- name: free
UPDATE dilamme.worker_slots SET state = 'free', token = NULL, held_until = NULL
WHERE token = ANY(%(tokens)s::uuid[]) AND state IN ('invited', 'started')
RETURNING slot

-- name: take_back
-- For reservations whose invoke failed. A worker that has come all the same keeps its slot: AWS took its event, and only
-- the answer was lost.
UPDATE dilamme.worker_slots SET state = 'free', token = NULL, held_until = NULL
WHERE token = ANY(%(tokens)s::uuid[]) AND state = 'invited'
RETURNING slot

-- name: free_overdue
-- Slots whose worker never came, or never freed them: the platform's report was lost. Also the number that is free
-- afterwards: the freed ones are added, since the count's snapshot is from before.
WITH freed AS (
    UPDATE dilamme.worker_slots SET state = 'free', token = NULL, held_until = NULL
    WHERE state IN ('invited', 'started') AND held_until <= dilamme.clock()
    RETURNING slot
)
SELECT count(*) AS free FROM dilamme.worker_slots
WHERE slot <= %(slots)s AND (state = 'free' OR slot IN (SELECT slot FROM freed))

-- name: count_slots
SELECT count(*) FILTER (WHERE state = 'free') AS free,
       count(*) FILTER (WHERE state = 'invited') AS invited,
       count(*) FILTER (WHERE state = 'started') AS started
FROM dilamme.worker_slots WHERE slot <= %(slots)s OR state <> 'free'
