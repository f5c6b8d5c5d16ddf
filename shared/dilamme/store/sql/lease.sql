-- One leader. The newest scheduler leads; the one before sees that its epoch has passed and leaves.

-- fragment: unflushed
-- Its transaction's commit does not wait for the disk, and a server that crashes may forget it: for reservations, a
-- renewed lease and the sweep's cursor, which are made again, and nothing else. A worker that finds
-- its reservation forgotten leaves.
set_config('synchronous_commit', 'off', true)

-- name: take_lead
UPDATE dilamme.scheduler_lease
SET epoch = epoch + 1, owner = %(owner)s, expires_at = dilamme.clock() + %(lease)s::interval, invited_until = '-infinity'
RETURNING epoch

-- name: renew
-- The row stays locked to the end of the tick's transaction: two schedulers cannot run the same tick.
UPDATE dilamme.scheduler_lease
SET expires_at = dilamme.clock() + %(lease)s::interval, last_tick_at = dilamme.clock()
WHERE epoch = %(epoch)s AND owner = %(owner)s
RETURNING dilamme.clock() AS now,
-- include: unflushed

-- name: resign
UPDATE dilamme.scheduler_lease SET expires_at = dilamme.clock() WHERE epoch = %(epoch)s AND owner = %(owner)s RETURNING epoch

-- name: depose
-- The platform reports that this scheduler ended without a word. Who gets the row back invokes the next.
UPDATE dilamme.scheduler_lease
SET expires_at = dilamme.clock(), owner = NULL, invited_until = dilamme.clock() + %(hold)s::interval
WHERE owner = %(owner)s AND expires_at > dilamme.clock() - interval '1 minute'
RETURNING epoch

-- fragment: whether_nobody_leads
SELECT expires_at <= dilamme.clock() AND invited_until <= dilamme.clock() AS nobody_leads FROM dilamme.scheduler_lease

-- name: nobody_leads
-- include: whether_nobody_leads

-- name: upcoming
-- Is there anything for a leader to do within `ahead`? What runs needs none, since who settles it wakes one, unless its
-- lease may run out: then its worker, and the platform's report of it, may both be lost.
SELECT EXISTS (
        SELECT FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
            SELECT FROM dilamme.jobs
            WHERE priority = lane.priority AND
-- include: in_lane
              AND ready_at <= dilamme.clock() + %(ahead)s::interval
            ORDER BY ready_at, created_at, id LIMIT 1) AS head)
    OR EXISTS (
        SELECT FROM (
            SELECT FROM dilamme.jobs WHERE status = 'running' AND lease_expires_at <= dilamme.clock() + %(ahead)s::interval
            ORDER BY lease_expires_at LIMIT 1) AS expiring)
    OR EXISTS (SELECT FROM dilamme.outbox) AS upcoming

-- name: reserve_lead
-- A thousand callers who all see that no leader is alive make one invoke.
UPDATE dilamme.scheduler_lease SET invited_until = dilamme.clock() + %(hold)s::interval
WHERE expires_at <= dilamme.clock() AND invited_until <= dilamme.clock()
RETURNING epoch

-- name: take_back_lead
UPDATE dilamme.scheduler_lease SET invited_until = '-infinity' WHERE expires_at <= dilamme.clock() RETURNING epoch

-- name: move_sweep
UPDATE dilamme.scheduler_lease SET swept_to = %(swept_to)s::uuid
WHERE epoch = %(epoch)s AND swept_to IS DISTINCT FROM %(swept_to)s::uuid
RETURNING
-- include: unflushed
