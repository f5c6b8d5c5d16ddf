-- What the scheduler measures for the dashboard and the alarms. Every count stops at `most`.

-- name: gauge_jobs
SELECT
    (SELECT count(*) FROM (
        SELECT FROM dilamme.jobs WHERE status = 'dead' AND finished_at IS NOT NULL
        ORDER BY status, priority, finished_at LIMIT %(most)s) AS job) AS dead,
    (SELECT count(*) FROM (
        SELECT FROM dilamme.jobs WHERE status = 'running' AND lease_expires_at IS NOT NULL
        ORDER BY lease_expires_at LIMIT %(most)s) AS job) AS running,
    ready.p1 AS ready_p1, ready.p2 AS ready_p2, ready.p3 AS ready_p3,
    coalesce(extract(epoch FROM dilamme.clock() - ready.oldest), 0)::double precision AS oldest_ready_seconds
FROM (
    SELECT sum(counted.jobs) FILTER (WHERE lane.priority = 1) AS p1, sum(counted.jobs) FILTER (WHERE lane.priority = 2) AS p2,
           sum(counted.jobs) FILTER (WHERE lane.priority = 3) AS p3, min(counted.oldest) AS oldest
    FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, min(job.ready_at) AS oldest FROM (
            SELECT ready_at FROM dilamme.jobs
            WHERE priority = lane.priority AND status = 'pending' AND unmet_dependencies = 0 AND ready_at <= dilamme.clock()
            ORDER BY ready_at, created_at, id LIMIT %(most)s) AS job) AS counted
) AS ready

-- name: gauge_slots
SELECT count(*) FILTER (WHERE state = 'invited') AS invited, count(*) FILTER (WHERE state = 'started') AS started
FROM dilamme.worker_slots

-- name: gauge_outbox
-- A letter's id is a UUIDv7, so that the smallest is the oldest and tells its time: 48 bits of milliseconds.
SELECT coalesce(extract(epoch FROM dilamme.clock()) - (
    SELECT ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0 FROM dilamme.outbox ORDER BY id LIMIT 1),
    0)::double precision AS oldest_letter_seconds

-- name: gauge_server
-- Connections of all databases, since they share one limit. A snapshot that stays open keeps vacuum from cleaning up
-- behind the queue: its age, in this database, is null where we may not see others' (pg_read_all_stats).
SELECT count(*) FILTER (WHERE datid IS NOT NULL) AS connections,
       CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN coalesce(extract(epoch FROM statement_timestamp() - min(xact_start)
           FILTER (WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid())), 0)
       END::double precision AS oldest_snapshot_seconds
FROM pg_stat_activity

-- name: connection_limits
-- What an ordinary role may use: PostgreSQL keeps some for superusers (and, from 16 on, for a role), RDS for itself.
SELECT total AS max_connections, kept AS reserved, total - kept AS usable
FROM (SELECT current_setting('max_connections')::integer AS total,
             current_setting('superuser_reserved_connections')::integer
             + coalesce(current_setting('reserved_connections', true)::integer, 0)
             + coalesce(current_setting('rds.rds_superuser_reserved_connections', true)::integer, 0) AS kept) AS setting
