-- The privileges that each function's login role needs. Applied anew at each migration, so that this file is the whole truth.
-- The roles' settings stand in store/session_settings.py.

GRANT USAGE ON SCHEMA dilamme TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
-- A right on a table takes its columns' rights along, given or revoked.
REVOKE ALL ON ALL TABLES IN SCHEMA dilamme FROM dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;

-- Reading. The API describes jobs, the worker runs them. The scheduler and the rescue copy the chosen columns of a recurring
-- job that they bury into its next occurrence, so they read its payload; they never read a result.
GRANT SELECT ON dilamme.jobs TO dilamme_api, dilamme_worker;
GRANT SELECT (id, status, created_at, scheduled_at, ready_at, unmet_dependencies, attempt, replayed, errors, started_at,
    finished_at, lease_expires_at, worker, token, series_id,
-- include: chosen_columns
    ) ON dilamme.jobs TO dilamme_scheduler, dilamme_rescue;
GRANT SELECT (idempotency_key) ON dilamme.jobs TO dilamme_scheduler;
GRANT SELECT ON dilamme.job_dependencies, dilamme.series, dilamme.job_types, dilamme.worker_slots, dilamme.scheduler_lease,
    dilamme.schema_migrations TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT SELECT ON dilamme.idempotency_keys TO dilamme_api, dilamme_worker;
GRANT SELECT (key) ON dilamme.idempotency_keys TO dilamme_scheduler;
-- Whoever wakes a scheduler looks first whether there is a letter to send.
GRANT SELECT (id) ON dilamme.outbox TO dilamme_api, dilamme_worker, dilamme_rescue;
GRANT SELECT ON dilamme.outbox TO dilamme_scheduler;

GRANT SELECT ON dilamme.cascades TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;

-- Storing: new jobs by the API and by handlers, next occurrences by whoever ends one.
GRANT INSERT (id, status, created_at, scheduled_at, ready_at, unmet_dependencies, series_id,
-- include: chosen_columns
    ) ON dilamme.jobs TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT INSERT (finished_at, errors, idempotency_key) ON dilamme.jobs TO dilamme_api, dilamme_worker;
GRANT INSERT ON dilamme.job_dependencies, dilamme.cascades TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT INSERT ON dilamme.series, dilamme.idempotency_keys TO dilamme_api, dilamme_worker;
GRANT INSERT ON dilamme.outbox TO dilamme_scheduler, dilamme_worker, dilamme_rescue;

-- The same in one call, for a handler that is written for async.
GRANT EXECUTE ON FUNCTION dilamme.submit TO dilamme_worker;

-- Changing. Nobody changes what was asked for: type, payload, priority, and the rest of the chosen columns.
GRANT UPDATE (status, attempt, ready_at, started_at, finished_at, errors, unknown_since, replayed)
    ON dilamme.jobs TO dilamme_api;
GRANT UPDATE (status, attempt, ready_at, started_at, finished_at, errors, unknown_since, unmet_dependencies, result, worker,
    token, lease_expires_at) ON dilamme.jobs TO dilamme_worker;
GRANT UPDATE (status, ready_at, finished_at, errors, unknown_since, worker, token, lease_expires_at)
    ON dilamme.jobs TO dilamme_scheduler, dilamme_rescue;
GRANT UPDATE (unmet_dependencies) ON dilamme.jobs TO dilamme_scheduler;
GRANT UPDATE (ended_at) ON dilamme.series TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT UPDATE (idempotency_key) ON dilamme.series TO dilamme_scheduler;
GRANT INSERT, UPDATE ON dilamme.job_types TO dilamme_worker;

-- All may wake a worker or a scheduler.
GRANT UPDATE (state, token, held_until) ON dilamme.worker_slots
    TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT UPDATE (invited_until) ON dilamme.scheduler_lease TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT UPDATE (owner, expires_at) ON dilamme.scheduler_lease TO dilamme_scheduler, dilamme_rescue;

-- The leader's maintenance: the lease, slots, the queue, retention.
GRANT UPDATE (epoch, last_tick_at, swept_to) ON dilamme.scheduler_lease TO dilamme_scheduler;
GRANT INSERT, DELETE ON dilamme.worker_slots TO dilamme_scheduler;
GRANT UPDATE (send_at), DELETE ON dilamme.outbox TO dilamme_scheduler;
GRANT DELETE ON dilamme.jobs, dilamme.job_dependencies, dilamme.idempotency_keys, dilamme.series, dilamme.cascades
    TO dilamme_scheduler;

-- On RDS the functions log in with a token of IAM's. Only the superuser of RDS may grant this. If another role migrates, the
-- functions log in with a secret.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_iam') AND pg_has_role('rds_superuser', 'MEMBER') THEN
        GRANT rds_iam TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
    END IF;
END $$;

-- The scheduler may measure the oldest snapshot of any role. Not every migrator may grant this; the gauge is absent then.
DO $$
BEGIN
    GRANT pg_read_all_stats TO dilamme_scheduler;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'dilamme_scheduler may not see the snapshots of other roles';
END $$;
