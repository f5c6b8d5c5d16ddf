-- compatible-from: 1
-- dilamme.submit: the library's `submit` for everything that speaks SQL. A property test holds the two equal
-- (tests/integration/test_sql_submit_equals.py). A migration that gives jobs a new column with a default leaves it as it is.
--
-- The bodies contain no backslash outside of E'…', since a session may have standard_conforming_strings off, and nothing that
-- depends on DateStyle or the time zone: they run with the caller's settings.

-- `value` as `dilamme.wire.canonical_json` writes it: keys sorted by code points, no spaces, numbers with a point as Python
-- writes a float. `jsonb` has forgotten whether 1e16 was written so or in digits: `as_floats` takes whole numbers from there on
-- for floats, if one can hold them; else all are digits.
CREATE FUNCTION dilamme.canonical_json(value jsonb, as_floats boolean) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    exact    numeric;
    shortest numeric;
    digits   text;
    exponent integer;
BEGIN
    CASE jsonb_typeof(value)
    WHEN 'object' THEN
        RETURN '{' || coalesce((
            SELECT string_agg(to_json(member.key)::text || ':' || CASE
                       WHEN jsonb_typeof(member.value) IN ('object', 'array', 'number')
                       THEN dilamme.canonical_json(member.value, as_floats) ELSE member.value::text END,
                   ',' ORDER BY member.key COLLATE "C")
            FROM jsonb_each(canonical_json.value) AS member), '') || '}';
    WHEN 'array' THEN
        RETURN '[' || coalesce((
            SELECT string_agg(CASE
                       WHEN jsonb_typeof(item.value) IN ('object', 'array', 'number')
                       THEN dilamme.canonical_json(item.value, as_floats) ELSE item.value::text END,
                   ',' ORDER BY item.place)
            FROM jsonb_array_elements(canonical_json.value) WITH ORDINALITY AS item (value, place)), '') || ']';
    WHEN 'number' THEN
        digits := value::text;
        IF strpos(digits, '.') = 0 AND (length(digits) < 17 OR NOT as_floats) THEN
            RETURN digits;
        END IF;
        exact := digits::numeric;
        IF abs(exact) < 2.4703282292062328e-324 THEN
            RETURN '0.0';
        END IF;
        shortest := exact::double precision::text::numeric;
        -- PostgreSQL writes 1e23 as 9.999999999999999e+22. What came with fewer digits was the shortest already.
        IF length(btrim(translate(exact::text, '-.', ''), '0')) <= length(btrim(translate(shortest::text, '-.', ''), '0')) THEN
            shortest := trim_scale(exact);
        END IF;
        IF strpos(digits, '.') = 0 AND (abs(exact) < 1e16 OR shortest <> exact) THEN
            RETURN digits;
        END IF;
        IF abs(shortest) >= 1e16 AND NOT as_floats THEN
            RETURN trunc(shortest)::text;
        END IF;
        IF abs(shortest) >= 1e-4 AND abs(shortest) < 1e16 THEN
            RETURN shortest::text || CASE WHEN scale(shortest) = 0 THEN '.0' ELSE '' END;
        END IF;
        exponent := CASE WHEN abs(shortest) >= 1 THEN length(trunc(abs(shortest))::text) - 1
            ELSE length(ltrim(split_part(shortest::text, '.', 2), '0')) - scale(shortest) - 1 END;
        digits := btrim(translate(shortest::text, '-.', ''), '0');
        RETURN CASE WHEN shortest < 0 THEN '-' ELSE '' END || left(digits, 1)
            || CASE WHEN length(digits) > 1 THEN '.' || substr(digits, 2) ELSE '' END
            || CASE WHEN exponent < 0 THEN 'e-' ELSE 'e+' END || CASE WHEN abs(exponent) < 10 THEN '0' ELSE '' END || abs(exponent);
    ELSE
        RETURN value::text;
    END CASE;
END $$;

-- The hash of a request that `dilamme.wire.requests.request_hash` makes, so that an idempotency key is the same key to the API,
-- the library and here. With an `as_floats` that is not the caller's spelling it may miss; each side tries both.
CREATE FUNCTION dilamme.request_hash(
    type text, payload jsonb, priority bigint, scheduled_at timestamptz, interval_seconds bigint, dependency_ids uuid[],
    max_attempts bigint, on_dependency_failure text, as_floats boolean
) RETURNS bytea
    LANGUAGE plpgsql STABLE
    SET extra_float_digits = 1
AS $$
DECLARE
    quoted text := to_json(dilamme.canonical_json(payload, as_floats))::text;
    utc    timestamp := scheduled_at AT TIME ZONE 'UTC';
BEGIN
    -- As Python escapes it for ASCII: code units of UTF-16, and DEL.
    IF octet_length(quoted) > length(quoted) OR strpos(quoted, chr(127)) > 0 THEN
        quoted := (
            SELECT string_agg(CASE
                WHEN code BETWEEN 32 AND 126 THEN letter
                WHEN code < 65536 THEN E'\\u' || lpad(to_hex(code), 4, '0')
                ELSE E'\\u' || to_hex(55296 + (code - 65536) / 1024) || E'\\u' || to_hex(56320 + (code - 65536) % 1024) END,
                '' ORDER BY place)
            FROM regexp_split_to_table(quoted, '') WITH ORDINALITY AS one (letter, place), ascii(letter) AS code);
    END IF;
    RETURN sha256(convert_to('[{' || concat_ws(', ',
        CASE WHEN cardinality(dependency_ids) > 0
            THEN '"dependency_ids": ["' || array_to_string(dependency_ids, '", "') || '"]' END,
        '"interval_seconds": ' || interval_seconds,
        '"max_attempts": ' || max_attempts,
        CASE WHEN on_dependency_failure <> 'wait' THEN '"on_dependency_failure": "' || on_dependency_failure || '"' END,
        CASE WHEN payload <> '{}' THEN '"payload": ' || quoted END,
        CASE WHEN priority <> 2 THEN '"priority": ' || priority END,
        '"scheduled_at": "' || to_char(utc, 'YYYY-MM-DD"T"HH24:MI:SS')
            || CASE WHEN utc = date_trunc('second', utc) THEN '' ELSE to_char(utc, '.US') END || 'Z"',
        '"type": "' || type || '"') || '}]', 'UTF8'));
END $$;

-- With the rights of its owner, so that whoever may call it can store jobs and do nothing else with them. So its search_path is
-- fixed, pg_temp last: else a caller's temporary type named `text` would run with these rights. A refusal carries the argument
-- as its COLUMN, in the SCHEMA dilamme, for programs; DETAIL lists the dependencies that nobody knows.
CREATE FUNCTION dilamme.submit(
    type                  text,
    payload               jsonb       DEFAULT '{}',
    priority              bigint      DEFAULT 2,
    scheduled_at          timestamptz DEFAULT NULL,
    interval_seconds      bigint      DEFAULT NULL,
    dependency_ids        uuid[]      DEFAULT '{}',
    max_attempts          bigint      DEFAULT NULL,
    on_dependency_failure text        DEFAULT 'wait',
    idempotency_key       text        DEFAULT NULL,
    payload_version       bigint      DEFAULT NULL
) RETURNS uuid
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at         timestamptz := dilamme.clock();
    written    text := submit.payload::text;
    argument   text;
    state      text := '22023';
    words      text;
    microsecond bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    -- UUIDv7 whose 12 bits after the milliseconds count parts of one: two calls of a session are further apart than a
    -- microsecond, so the order of their ids is that of the calls. PostgreSQL's own uuidv7() came with 18.
    job_id     uuid := lpad(to_hex(microsecond / 1000), 12, '0') || '7' || lpad(to_hex(microsecond % 1000 * 4096 / 1000), 3, '0')
                           || substr(gen_random_uuid()::text, 20);
    asked      bytea;
    kept       record;
    parent     uuid;
    status     text;
    missing    uuid[] := '{}';
    unmet      integer := 0;
    is_failed  boolean := false;
    series_id  uuid;
BEGIN
    CASE
    WHEN submit.type IS NULL THEN
        argument := 'type'; state := '22004';
        words := 'must not be NULL: give the name of the handler, such as email.send';
    WHEN submit.type !~ '^[a-z][a-z0-9_.-]*$' COLLATE "C" OR length(submit.type) > 100 THEN
        argument := 'type';
        words := 'must be up to 100 of a-z, 0-9, ''_'', ''.'' and ''-'', the first a letter: such as email.send';
    WHEN submit.payload IS NULL THEN
        argument := 'payload'; state := '22004';
        words := 'must not be NULL: leave it out for an empty object, or give ''null''::jsonb';
    -- Before the others, whose look at each value goes as deep.
    WHEN octet_length(written) > 400 AND length(translate(written, '[{', '')) < length(written) - 200
            AND jsonb_path_exists(submit.payload, 'strict $.**{200} ? (@.type() == "object" || @.type() == "array")') THEN
        argument := 'payload';
        words := 'is nested more than 200 levels deep: flatten it';
    -- The API counts its own spelling, without spaces. That of jsonb is longer: 1e300 has 301 digits there. The third line is
    -- the least that it can be, which spares seconds for a large array.
    WHEN octet_length(written) > 262144 AND (octet_length(written) > 16777216
            OR octet_length(regexp_replace(replace(replace(written, ', ', ','), ': ', ':'), '[0-9]+', '0', 'g')) > 262144
            OR octet_length(dilamme.canonical_json(submit.payload, true)) > 262144) THEN
        argument := 'payload'; state := '54000';
        words := 'is more than 262144 bytes of JSON: keep large data elsewhere and send a reference';
    WHEN octet_length(written) > 308 AND jsonb_path_exists(submit.payload,
            'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623158e308 || @ < -1.7976931348623158e308))') THEN
        argument := 'payload'; state := '22003';
        words := 'is not JSON: it holds a number beyond 1.8e308: send it as a string';
    WHEN submit.priority IS NULL THEN
        argument := 'priority'; state := '22004';
        words := 'must not be NULL: leave it out for 2, or give 1, 2 or 3';
    WHEN submit.priority NOT BETWEEN 1 AND 3 THEN
        argument := 'priority';
        words := 'must be 1 (high), 2 (medium) or 3 (low), not ' || submit.priority;
    WHEN submit.scheduled_at < '1970-01-01 00:00:00+00' OR submit.scheduled_at >= '3000-01-01 00:00:00+00' THEN
        argument := 'scheduled_at'; state := '22008';
        words := 'must lie between the years 1970 and 2999';
    WHEN submit.interval_seconds NOT BETWEEN 1 AND 315360000 THEN
        argument := 'interval_seconds';
        words := 'must be 1 to 315360000, which is ten years, not ' || submit.interval_seconds;
    WHEN array_ndims(submit.dependency_ids) > 1 THEN
        argument := 'dependency_ids'; state := '2202E';
        words := 'must have one dimension: give an array of ids of jobs';
    WHEN submit.dependency_ids IS NULL OR array_position(submit.dependency_ids, NULL) IS NOT NULL THEN
        argument := 'dependency_ids'; state := '22004';
        words := 'must not be NULL nor hold one: leave it out, or give an array of ids of jobs';
    WHEN cardinality(submit.dependency_ids) > 1000 THEN
        argument := 'dependency_ids'; state := '54000';
        words := 'holds more than 1000 ids: put one job that waits for some of them in between';
    WHEN submit.max_attempts NOT BETWEEN 1 AND 25 THEN
        argument := 'max_attempts';
        words := 'must be 1 to 25, not ' || submit.max_attempts || ': leave it out for the type''s';
    WHEN submit.on_dependency_failure IS NULL THEN
        argument := 'on_dependency_failure'; state := '22004';
        words := 'must not be NULL: leave it out for ''wait'', or give ''cancel''';
    WHEN submit.on_dependency_failure NOT IN ('wait', 'cancel') THEN
        argument := 'on_dependency_failure';
        words := 'must be ''wait'' or ''cancel''';
    WHEN submit.payload_version NOT BETWEEN 1 AND 32767 THEN
        argument := 'payload_version';
        words := 'must be 1 to 32767, not ' || submit.payload_version || ': leave it out for the one that workers have published';
    WHEN submit.idempotency_key !~ '^[!-~]+$' COLLATE "C" OR length(submit.idempotency_key) > 255 THEN
        argument := 'idempotency_key';
        words := 'must be 1 to 255 visible ASCII characters, without spaces';
    ELSE
    END CASE;
    IF argument IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = state, MESSAGE = argument || ' ' || words, SCHEMA = 'dilamme', COLUMN = argument;
    END IF;

    IF submit.idempotency_key IS NOT NULL THEN
        asked := dilamme.request_hash(submit.type, submit.payload, submit.priority, submit.scheduled_at, submit.interval_seconds,
            submit.dependency_ids, submit.max_attempts, submit.on_dependency_failure, false);
        LOOP
            INSERT INTO dilamme.idempotency_keys (key, request_hash, job_ids, refs)
            VALUES (submit.idempotency_key, asked, ARRAY[job_id], '[null]')
            ON CONFLICT (key) DO NOTHING;  -- waits for a rival that is storing the same one
            EXIT WHEN FOUND;
            SELECT taken.request_hash, taken.job_ids INTO kept
            FROM dilamme.idempotency_keys AS taken WHERE taken.key = submit.idempotency_key;
            CONTINUE WHEN NOT FOUND;  -- retention took the key between the two statements
            IF kept.request_hash = asked OR kept.request_hash = dilamme.request_hash(submit.type, submit.payload,
                    submit.priority, submit.scheduled_at, submit.interval_seconds, submit.dependency_ids, submit.max_attempts,
                    submit.on_dependency_failure, true) THEN
                RETURN kept.job_ids[1];
            END IF;
            RAISE EXCEPTION USING ERRCODE = '23505', SCHEMA = 'dilamme', COLUMN = 'idempotency_key', MESSAGE =
                'the idempotency key ''' || submit.idempotency_key || ''' stands for another request: use a new key, or send the same';
        END LOOP;
    END IF;

    -- FOR SHARE holds off the parent's completion until the edge is committed. Else a completion that looked for children a
    -- moment earlier would miss this child, and it would wait for ever. In the order of ids, one by one: the plan that a
    -- session keeps for a single id is the primary key's, whatever it believed of the table when it was made.
    IF cardinality(submit.dependency_ids) > 0 THEN
        FOR parent IN SELECT DISTINCT wanted.id FROM unnest(submit.dependency_ids) AS wanted (id) ORDER BY wanted.id LOOP
            SELECT job.status INTO status FROM dilamme.jobs AS job WHERE job.id = parent FOR SHARE;
            IF NOT FOUND THEN
                missing := missing || parent;
            ELSIF status <> 'completed' THEN
                unmet := unmet + 1;
                is_failed := is_failed OR status IN ('dead', 'cancelled');
            END IF;
        END LOOP;
        IF cardinality(missing) > 0 THEN
            RAISE EXCEPTION USING ERRCODE = '23503', SCHEMA = 'dilamme', COLUMN = 'dependency_ids',
                MESSAGE = 'dependency_ids: no job has the id ' || missing[1] || ': store the job first, or leave the id out',
                DETAIL = array_to_string(missing, ', ');
        END IF;
    END IF;

    -- A job that is stored as cancelled starts no series: its dependency has failed for good.
    is_failed := is_failed AND submit.on_dependency_failure = 'cancel';
    IF submit.interval_seconds IS NOT NULL AND NOT is_failed THEN
        series_id := overlay(job_id::text PLACING substr(gen_random_uuid()::text, 20) FROM 20);
        INSERT INTO dilamme.series (id, interval_seconds, created_at) VALUES (series_id, submit.interval_seconds, at);
    END IF;
    INSERT INTO dilamme.jobs (
        id, status, unmet_dependencies, created_at, scheduled_at, ready_at, finished_at, series_id, idempotency_key, errors,
        type, priority, max_attempts, on_dependency_failure, payload, payload_version
    ) VALUES (
        job_id, CASE WHEN is_failed THEN 'cancelled' ELSE 'pending' END, unmet, at, coalesce(submit.scheduled_at, at),
        greatest(submit.scheduled_at, at), CASE WHEN is_failed THEN at END, series_id, submit.idempotency_key,
        CASE WHEN is_failed THEN jsonb_build_array(jsonb_build_object(
            'reason', 'dependency_failed', 'message', 'a job that it depends on was already dead or cancelled',
            'attempt', 0, 'at', at)) ELSE '[]' END,
        submit.type, submit.priority, submit.max_attempts, submit.on_dependency_failure, submit.payload,
        nullif(coalesce(submit.payload_version,
            (SELECT known.version FROM dilamme.job_types AS known WHERE known.type = submit.type)), 1)
    );
    IF cardinality(submit.dependency_ids) > 0 THEN
        INSERT INTO dilamme.job_dependencies (child_id, parent_id)
        SELECT DISTINCT job_id, wanted.id FROM unnest(submit.dependency_ids) AS wanted (id);
    END IF;
    RETURN job_id;
END $$;

COMMENT ON FUNCTION dilamme.submit IS
    'Stores a job in the transaction that calls it; its id. Arguments are refused with an SQLSTATE and the argument''s name.';

-- Everyone may execute a new function. These wait for a GRANT EXECUTE ON FUNCTION dilamme.submit.
REVOKE ALL ON FUNCTION dilamme.submit, dilamme.request_hash, dilamme.canonical_json FROM PUBLIC;
