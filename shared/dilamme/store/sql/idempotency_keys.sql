-- Idempotency keys: each stands for one request, and lives as long as the last of its jobs and of the series that they began.

-- name: take_key
-- The unique index makes us wait here for a rival with the same key. If it commits, no row comes back, and `find_key`
-- shows its jobs. If it rolls back, the key is ours.
INSERT INTO dilamme.idempotency_keys (key, request_hash, job_ids, refs)
VALUES (%(key)s, %(request_hash)s, %(job_ids)s::uuid[], %(refs)s)
ON CONFLICT (key) DO NOTHING
RETURNING key

-- name: find_key
SELECT request_hash, job_ids, refs FROM dilamme.idempotency_keys WHERE key = %(key)s

-- name: prune_keys
DELETE FROM dilamme.idempotency_keys AS taken
WHERE taken.key = ANY(%(keys)s::text[])
  AND NOT EXISTS (SELECT FROM dilamme.jobs WHERE jobs.idempotency_key = taken.key)
  AND NOT EXISTS (SELECT FROM dilamme.series WHERE series.idempotency_key = taken.key)
