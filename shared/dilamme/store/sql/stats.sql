-- Measurements of the queue and its server, for /stats, the dashboard and the alarms. Every count stops at its limit.

-- name: count_jobs
-- Each kind has a limit of its own, since a row costs a microsecond or two where vacuum has not been yet. A kind with the
-- limit 0 is not counted. Blocked and running jobs have no index by priority: they are counted together, then grouped.
SELECT 'ready' AS kind, lane.priority, counted.jobs, counted.jobs >= %(ready)s AS capped
FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM dilamme.jobs WHERE priority = lane.priority AND
-- include: ready
        ORDER BY ready_at, created_at, id LIMIT %(ready)s) AS job) AS counted
UNION ALL
SELECT 'scheduled', lane.priority, counted.jobs, counted.jobs >= %(scheduled)s
FROM (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM dilamme.jobs WHERE priority = lane.priority AND
-- include: in_lane
          AND ready_at > dilamme.clock()
        ORDER BY ready_at, created_at, id LIMIT %(scheduled)s) AS job) AS counted
UNION ALL
SELECT 'blocked', lane.priority, count(job.priority), sum(count(job.priority)) OVER () >= %(blocked)s
FROM (VALUES (1), (2), (3)) AS lane (priority) LEFT JOIN (
    SELECT priority FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies > 0
    ORDER BY id LIMIT %(blocked)s
) AS job ON job.priority = lane.priority
GROUP BY lane.priority
UNION ALL
SELECT 'running', lane.priority, count(job.priority), sum(count(job.priority)) OVER () >= %(running)s
FROM (VALUES (1), (2), (3)) AS lane (priority) LEFT JOIN (
    SELECT priority FROM dilamme.jobs WHERE status = 'running' AND lease_expires_at IS NOT NULL
    ORDER BY lease_expires_at LIMIT %(running)s
) AS job ON job.priority = lane.priority
GROUP BY lane.priority
UNION ALL
SELECT ended.status, lane.priority, counted.jobs, counted.jobs >= ended.allowed
FROM (VALUES ('completed', %(completed)s), ('dead', %(dead)s), ('cancelled', %(cancelled)s)) AS ended (status, allowed)
CROSS JOIN (VALUES (1), (2), (3)) AS lane (priority) CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM dilamme.jobs WHERE status = ended.status AND priority = lane.priority AND finished_at IS NOT NULL
        ORDER BY finished_at LIMIT ended.allowed) AS job) AS counted

-- name: pulse
SELECT dilamme.clock() AS at, expires_at > dilamme.clock() AS alive, last_tick_at,
       extract(epoch FROM dilamme.clock() - (SELECT min(oldest.ready_at) FROM (
-- include: lane_heads
       ) AS oldest))::double precision AS oldest_ready_seconds
FROM dilamme.scheduler_lease

-- name: gauge_outbox
-- A letter's id is a UUIDv7, so the smallest is the oldest, and its first 48 bits are its time in milliseconds.
SELECT coalesce(extract(epoch FROM dilamme.clock()) - (
    SELECT ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0 FROM dilamme.outbox ORDER BY id LIMIT 1),
    0)::double precision AS oldest_letter_seconds

-- name: gauge_server
-- Connections of all databases, since they share one limit. A snapshot that stays open keeps vacuum from removing the
-- queue's dead rows. Its age, in this database, is null if our role may not see other sessions (pg_read_all_stats).
SELECT count(*) FILTER (WHERE datid IS NOT NULL) AS connections,
       CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN coalesce(extract(epoch FROM statement_timestamp() - min(xact_start)
           FILTER (WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid())), 0)
       END::double precision AS oldest_snapshot_seconds
FROM pg_stat_activity

-- name: connection_limits
-- The connections that an ordinary role may use. PostgreSQL reserves some for superusers (and, from 16 on, for a role),
-- and RDS some for itself.
SELECT total AS max_connections, kept AS reserved, total - kept AS usable
FROM (SELECT current_setting('max_connections')::integer AS total,
             current_setting('superuser_reserved_connections')::integer
             + coalesce(current_setting('reserved_connections', true)::integer, 0)
             + coalesce(current_setting('rds.rds_superuser_reserved_connections', true)::integer, 0) AS kept) AS setting
