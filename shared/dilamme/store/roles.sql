-- One login role for each function, with the limits and the privileges that it needs. Applied anew at each migration, so
-- that this file is the whole truth. Our statements take milliseconds; the limits end one that does not.

ALTER ROLE dilamme_api SET statement_timeout = '10s';
ALTER ROLE dilamme_scheduler SET statement_timeout = '20s';
ALTER ROLE dilamme_worker SET statement_timeout = '20s';
ALTER ROLE dilamme_rescue SET statement_timeout = '20s';

ALTER ROLE dilamme_api SET lock_timeout = '5s';
ALTER ROLE dilamme_scheduler SET lock_timeout = '2s';
ALTER ROLE dilamme_worker SET lock_timeout = '2s';
ALTER ROLE dilamme_rescue SET lock_timeout = '5s';

ALTER ROLE dilamme_api SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE dilamme_scheduler SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE dilamme_worker SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE dilamme_rescue SET idle_in_transaction_session_timeout = '10s';

-- A frozen function keeps its connection until the platform ends it, which may be hours after an upgrade. The longest
-- that a worker is silent, with a handler running, is the 15 minutes that Lambda allows.
ALTER ROLE dilamme_api SET idle_session_timeout = '20min';
ALTER ROLE dilamme_scheduler SET idle_session_timeout = '20min';
ALTER ROLE dilamme_worker SET idle_session_timeout = '20min';
ALTER ROLE dilamme_rescue SET idle_session_timeout = '20min';

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

-- A handler may submit, as the API does.
GRANT INSERT ON dilamme.series, dilamme.idempotency_keys TO dilamme_api, dilamme_worker;
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
