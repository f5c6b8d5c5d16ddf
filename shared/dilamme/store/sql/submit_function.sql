-- The SQL function dilamme.submit (migrations/0005_submit.sql), as the library calls it.

-- name: submit
SELECT dilamme.submit(
    type => %(type)s, payload => %(payload)s::jsonb, priority => %(priority)s, scheduled_at => %(scheduled_at)s::timestamptz,
    interval_seconds => %(interval_seconds)s, dependency_ids => %(dependency_ids)s::uuid[], max_attempts => %(max_attempts)s,
    on_dependency_failure => %(on_dependency_failure)s, idempotency_key => %(idempotency_key)s,
    payload_version => %(payload_version)s) AS id
