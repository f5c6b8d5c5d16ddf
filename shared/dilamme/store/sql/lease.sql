-- One leader. The newest scheduler leads; the one before sees that its epoch has passed and leaves.

-- fragment: unflushed
-- The transaction's commit does not wait for the disk, and a crash of the server may lose it. Only for reservations, a
-- renewed lease and the sweep's cursor: these are made again. A worker whose reservation was lost leaves.
set_config('synchronous_commit', 'off', true)

-- name: take_lead
UPDATE dilamme.scheduler_lease
SET epoch = epoch + 1, owner = %(owner)s, expires_at = dilamme.clock() + %(lease)s::interval, invited_until = '-infinity'
RETURNING epoch

-- name: renew
-- The row stays locked until the tick's transaction ends: else two schedulers could run the same tick.
UPDATE dilamme.scheduler_lease
SET expires_at = dilamme.clock() + %(lease)s::interval, last_tick_at = dilamme.clock()
WHERE epoch = %(epoch)s AND owner = %(owner)s
RETURNING dilamme.clock() AS now,
-- include: unflushed

-- name: resign
UPDATE dilamme.scheduler_lease SET expires_at = dilamme.clock() WHERE epoch = %(epoch)s AND owner = %(owner)s RETURNING epoch

-- name: depose
-- The platform reports that this scheduler was lost. The caller that gets the row back invokes the next one.
UPDATE dilamme.scheduler_lease
SET expires_at = dilamme.clock(), owner = NULL, invited_until = dilamme.clock() + %(hold)s::interval
WHERE owner = %(owner)s AND expires_at > dilamme.clock() - interval '1 minute'
RETURNING epoch

-- fragment: whether_nobody_leads
SELECT expires_at <= dilamme.clock() AND invited_until <= dilamme.clock() AS nobody_leads FROM dilamme.scheduler_lease

-- name: nobody_leads
-- include: whether_nobody_leads

-- name: upcoming
-- Has a leader work within `ahead`? A running job needs no leader, since its worker wakes one after settling it. But if its
-- lease may run out, the worker and the platform's report of its loss may both be lost: then only a tick frees the job.
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
    OR EXISTS (SELECT FROM dilamme.outbox) OR EXISTS (SELECT FROM dilamme.cascades) AS upcoming

-- name: reserve_lead
-- If a thousand callers see at once that nobody leads, one of them gets the row and invokes a scheduler.
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
