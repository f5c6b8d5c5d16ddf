-- name: upsert_types
-- In name order, so that two workers that start together do not deadlock; unchanged rows are left alone. Of two releases the
-- one that started a worker last counts, in every value: so a roll-back is one.
INSERT INTO dilamme.job_types AS job_type (
    type, max_attempts, timeout_seconds, backoff_base_seconds, backoff_cap_seconds, version, schema, updated_at)
SELECT s.type, s.max_attempts, s.timeout_seconds, s.base_seconds, s.cap_seconds, s.version, s.schema, dilamme.clock()
FROM unnest(
    %(types)s::text[], %(max_attempts)s::smallint[], %(timeouts)s::double precision[],
    %(backoff_bases)s::double precision[], %(backoff_caps)s::double precision[], %(versions)s::smallint[],
    %(schemas)s::jsonb[]
) AS s (type, max_attempts, timeout_seconds, base_seconds, cap_seconds, version, schema)
ORDER BY s.type
ON CONFLICT (type) DO UPDATE
SET max_attempts = excluded.max_attempts, timeout_seconds = excluded.timeout_seconds,
    backoff_base_seconds = excluded.backoff_base_seconds, backoff_cap_seconds = excluded.backoff_cap_seconds,
    version = excluded.version, schema = excluded.schema, updated_at = excluded.updated_at
WHERE (job_type.max_attempts, job_type.timeout_seconds, job_type.backoff_base_seconds, job_type.backoff_cap_seconds,
       job_type.version, job_type.schema)
    IS DISTINCT FROM
      (excluded.max_attempts, excluded.timeout_seconds, excluded.backoff_base_seconds, excluded.backoff_cap_seconds,
       excluded.version, excluded.schema)

-- name: published_types
-- The types of which a caller must know more than their names: few rows, and no schema, which may be long.
SELECT type, coalesce(version, 1) AS version, updated_at, schema IS NOT NULL AS has_schema
FROM dilamme.job_types WHERE schema IS NOT NULL OR version > 1

-- name: published_schema
SELECT schema::text AS schema FROM dilamme.job_types WHERE type = %(type)s

-- name: list_types
SELECT job_type.type,
-- include: policy
    , coalesce(job_type.version, 1) AS version, job_type.schema::text AS schema, job_type.updated_at AS published_at
FROM dilamme.job_types AS job_type CROSS JOIN (SELECT NULL::smallint AS max_attempts) AS job
WHERE job_type.type > %(after)s ORDER BY job_type.type LIMIT %(limit)s

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
