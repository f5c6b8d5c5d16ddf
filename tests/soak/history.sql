-- What a job's row went through, written by PostgreSQL itself in the transaction that changed it: the auditor need not
-- believe what the product says of its own past. Per statement, since a settle changes hundreds of rows at once.
CREATE SCHEMA soak;
CREATE TABLE soak.history (
    seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    job_id    uuid NOT NULL,
    was       text,
    status    text NOT NULL,
    attempt   smallint NOT NULL,
    gave_back boolean NOT NULL,                          -- the attempt was taken back with the claim
    worker    uuid,
    reason    text,                                      -- of the newest error
    ready_at  timestamptz NOT NULL
);

CREATE FUNCTION soak.note_inserts() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.history (job_id, status, attempt, gave_back, ready_at)
    SELECT id, status, attempt, false, ready_at FROM fresh ORDER BY id;
    RETURN NULL;
END $$;

CREATE FUNCTION soak.note_updates() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.history (job_id, was, status, attempt, gave_back, worker, reason, ready_at)
    SELECT fresh.id, earlier.status, fresh.status, fresh.attempt, fresh.attempt < earlier.attempt AND earlier.status = 'running',
           coalesce(fresh.worker, earlier.worker), fresh.errors->-1->>'reason', fresh.ready_at
    FROM fresh JOIN earlier ON earlier.id = fresh.id
    WHERE (fresh.status, fresh.attempt, fresh.token) IS DISTINCT FROM (earlier.status, earlier.attempt, earlier.token)
    ORDER BY fresh.id;
    RETURN NULL;
END $$;

CREATE TRIGGER soak_inserts AFTER INSERT ON dilamme.jobs
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION soak.note_inserts();
CREATE TRIGGER soak_updates AFTER UPDATE ON dilamme.jobs
    REFERENCING NEW TABLE AS fresh OLD TABLE AS earlier FOR EACH STATEMENT EXECUTE FUNCTION soak.note_updates();

-- What retention deletes is kept whole: a job that was accepted and is gone must have been due to go.
CREATE TABLE soak.gone_jobs (LIKE dilamme.jobs);
ALTER TABLE soak.gone_jobs ADD COLUMN gone_at timestamptz NOT NULL DEFAULT dilamme.clock(),
    ADD COLUMN gone_seq bigint NOT NULL DEFAULT nextval(pg_get_serial_sequence('soak.history', 'seq'));
CREATE TABLE soak.gone_job_dependencies (LIKE dilamme.job_dependencies);
CREATE TABLE soak.gone_idempotency_keys (LIKE dilamme.idempotency_keys);
CREATE TABLE soak.gone_series (LIKE dilamme.series);

CREATE FUNCTION soak.keep_the_gone() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    EXECUTE format('INSERT INTO soak.gone_%s SELECT * FROM gone', TG_TABLE_NAME);
    RETURN NULL;
END $$;
CREATE TRIGGER soak_deletes AFTER DELETE ON dilamme.jobs
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION soak.keep_the_gone();
CREATE TRIGGER soak_deletes AFTER DELETE ON dilamme.job_dependencies
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION soak.keep_the_gone();
CREATE TRIGGER soak_deletes AFTER DELETE ON dilamme.idempotency_keys
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION soak.keep_the_gone();
CREATE TRIGGER soak_deletes AFTER DELETE ON dilamme.series
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION soak.keep_the_gone();
