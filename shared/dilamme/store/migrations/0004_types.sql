-- compatible-from: 1
-- What a type's payloads look like, published by the workers that run it; NULL where its handler says nothing of it.
ALTER TABLE dilamme.job_types
    ADD COLUMN version smallint CHECK (version >= 1),    -- NULL is 1
    ADD COLUMN schema  jsonb;                            -- JSON Schema

-- Which version of its type's payload a job has; NULL is 1, and nearly all rows have it. Without a CHECK: to add one, every
-- row would be read under a lock that stops the queue, and it would be worked out anew at every change of a row.
ALTER TABLE dilamme.jobs ADD COLUMN payload_version smallint;

-- Whoever stores a job looks at its type's schema. An application's own role has its rights from older documents.
DO $$
DECLARE
    application text;
BEGIN
    FOR application IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
        WHERE oid = 'dilamme.outbox'::regclass AND privilege_type = 'SELECT'
    LOOP
        EXECUTE format('GRANT SELECT ON dilamme.job_types TO %s', application);
    END LOOP;
END $$;
