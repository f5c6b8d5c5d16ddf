-- The privileges that each function's login role needs. Applied anew at each migration, so that this file is the whole truth.
-- The roles' settings stand in store/session_settings.py.

GRANT USAGE ON SCHEMA dilamme TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
REVOKE ALL ON ALL TABLES IN SCHEMA dilamme FROM dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;

-- All read everything (a job's description needs every table), and all may wake a worker or a scheduler.
GRANT SELECT ON ALL TABLES IN SCHEMA dilamme TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT UPDATE ON dilamme.worker_slots, dilamme.scheduler_lease
    TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;

-- A function that ends a job writes its consequences: children, the next occurrence, the dead letter.
GRANT INSERT, UPDATE ON dilamme.jobs TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT INSERT ON dilamme.job_dependencies TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT UPDATE ON dilamme.series TO dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue;
GRANT INSERT ON dilamme.outbox TO dilamme_scheduler, dilamme_worker, dilamme_rescue;

GRANT INSERT ON dilamme.series, dilamme.idempotency_keys TO dilamme_api;
GRANT INSERT, UPDATE ON dilamme.job_types TO dilamme_worker;

-- The leader's maintenance: slots, the queue, retention.
GRANT INSERT, DELETE ON dilamme.worker_slots TO dilamme_scheduler;
GRANT UPDATE, DELETE ON dilamme.outbox TO dilamme_scheduler;
GRANT DELETE ON dilamme.jobs, dilamme.job_dependencies, dilamme.idempotency_keys, dilamme.series TO dilamme_scheduler;

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
