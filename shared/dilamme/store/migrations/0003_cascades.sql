-- compatible-from: 1
-- Ended jobs some of whose dependents have yet to learn of it. A cascade is carried out in bounded steps, each a transaction
-- of its own: the first with the job's end, the others by the leader. A row is what is left when a step ends. Children up to
-- `after` have been dealt with: else each step would look at all of them again, of a job that has a hundred thousand.
CREATE TABLE dilamme.cascades (
    job_id uuid PRIMARY KEY,
    after  uuid NOT NULL
) WITH (fillfactor = 70);

-- Whoever wakes a scheduler looks whether there is something for it: so far at the outbox, from now on here too. An
-- application's own role has its rights from 0.1.0's documents.
DO $$
DECLARE
    application text;
BEGIN
    FOR application IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
        WHERE oid = 'dilamme.outbox'::regclass AND privilege_type = 'SELECT'
    LOOP
        EXECUTE format('GRANT SELECT ON dilamme.cascades TO %s', application);
    END LOOP;
END $$;
