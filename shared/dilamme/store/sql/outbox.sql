-- Dead letters on their way to the queue. At least once: if a leader dies between sending and `sent`, the next one sends
-- them again.

-- name: announce
INSERT INTO dilamme.outbox (id, job_id, message, send_at)
SELECT s.id, s.job_id, s.message, dilamme.clock()
FROM unnest(%(ids)s::uuid[], %(job_ids)s::uuid[], %(messages)s::jsonb[]) AS s (id, job_id, message)

-- name: pick
-- Postpones them while they are being sent, so that no transaction is open during a call to AWS.
UPDATE dilamme.outbox SET send_at = dilamme.clock() + %(hold)s::interval
WHERE send_at <= dilamme.clock() AND id = ANY(ARRAY(
    SELECT id FROM dilamme.outbox WHERE send_at <= dilamme.clock()
    ORDER BY send_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING id, message

-- name: sent
DELETE FROM dilamme.outbox WHERE id = ANY(%(ids)s::uuid[])
