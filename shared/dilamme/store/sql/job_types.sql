-- name: upsert_types
-- In name order, so that two workers that start together do not deadlock; unchanged rows are left alone.
INSERT INTO dilamme.job_types (type, max_attempts, timeout_seconds, backoff_base_seconds, backoff_cap_seconds, updated_at)
SELECT s.type, s.max_attempts, s.timeout_seconds, s.base_seconds, s.cap_seconds, dilamme.clock()
FROM unnest(
    %(types)s::text[], %(max_attempts)s::smallint[], %(timeouts)s::double precision[],
    %(backoff_bases)s::double precision[], %(backoff_caps)s::double precision[]
) AS s (type, max_attempts, timeout_seconds, base_seconds, cap_seconds)
ORDER BY s.type
ON CONFLICT (type) DO UPDATE
SET max_attempts = excluded.max_attempts, timeout_seconds = excluded.timeout_seconds,
    backoff_base_seconds = excluded.backoff_base_seconds, backoff_cap_seconds = excluded.backoff_cap_seconds,
    updated_at = excluded.updated_at
WHERE (job_types.max_attempts, job_types.timeout_seconds, job_types.backoff_base_seconds, job_types.backoff_cap_seconds)
    IS DISTINCT FROM
      (excluded.max_attempts, excluded.timeout_seconds, excluded.backoff_base_seconds, excluded.backoff_cap_seconds)

-- fragment: with_its_type
LEFT JOIN dilamme.job_types AS job_type ON job_type.type = job.type

-- fragment: attempts_allowed
-- domain/policy.py's rule: the job's own value, else its type's, else the setting.
coalesce(job.max_attempts, job_type.max_attempts, %(max_attempts)s)

-- fragment: policy
-- include: attempts_allowed
       AS max_attempts,
       coalesce(job_type.timeout_seconds, %(timeout_seconds)s) AS timeout_seconds,
       coalesce(job_type.backoff_base_seconds, %(backoff_base_seconds)s) AS backoff_base_seconds,
       coalesce(job_type.backoff_cap_seconds, %(backoff_cap_seconds)s) AS backoff_cap_seconds
