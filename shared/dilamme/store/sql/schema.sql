-- name: lock_migrations
-- Rival migrators take turns. The lock is a transaction's: a session's would not survive a pooler. The number is
-- arbitrary, and ours alone.
SELECT pg_advisory_xact_lock(28260371862840677)

-- name: fix_settings
SELECT set_config(wanted.name, wanted.value, true)
FROM unnest(%(names)s::text[], %(values)s::text[]) AS wanted (name, value)
JOIN pg_settings AS known ON known.name = wanted.name

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS dilamme

-- name: create_record
CREATE TABLE IF NOT EXISTS dilamme.schema_migrations (
    version         integer PRIMARY KEY,
    name            text NOT NULL,
    checksum        text NOT NULL,
    compatible_from integer NOT NULL,
    applied_at      timestamptz NOT NULL DEFAULT now()
)

-- name: applied
SELECT version, name, checksum, compatible_from FROM dilamme.schema_migrations ORDER BY version

-- name: record
INSERT INTO dilamme.schema_migrations (version, name, checksum, compatible_from)
VALUES (%(version)s, %(name)s, %(checksum)s, %(compatible_from)s)

-- name: is_prepared
SELECT to_regclass('dilamme.schema_migrations') IS NOT NULL AS prepared

-- name: takes_writes
SELECT NOT current_setting('transaction_read_only')::boolean AS writable

-- name: may_create_roles
SELECT rolcreaterole OR rolsuper AS allowed FROM pg_roles WHERE rolname = current_user

-- name: existing_roles
SELECT rolname AS name FROM pg_roles WHERE rolname = ANY(%(names)s)
