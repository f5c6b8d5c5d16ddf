-- compatible-from: 1
-- Everything lives in a schema of its own, named in full in every statement: a database may be shared with the
-- user's tables, and a search_path set on a session would not survive a transaction pooler.

-- The one clock. Statement time: it moves on inside a long transaction, and is still one value inside a statement,
-- so that an index condition can use it. Tests replace this function to move time for every process at once.
CREATE FUNCTION dilamme.clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT statement_timestamp()';

-- A domain, not a CHECK of the table's: that would run its regular expression at every change of a job's state.
-- The length apart: {0,99} in the pattern makes an automaton of a hundred copies, run for every job that is stored.
CREATE DOMAIN dilamme.job_type AS text CHECK (VALUE ~ '^[a-z][a-z0-9_.-]*$' AND length(VALUE) <= 100);

CREATE TABLE dilamme.series (
    id               uuid PRIMARY KEY,
    interval_seconds integer NOT NULL CHECK (interval_seconds >= 1),
    created_at       timestamptz NOT NULL,
    ended_at         timestamptz
);

-- The columns that are always there and have a fixed width come first: the others cost a walk along the row, at every look.
CREATE TABLE dilamme.jobs (
    id                    uuid PRIMARY KEY,
    created_at            timestamptz NOT NULL,
    scheduled_at          timestamptz NOT NULL,          -- for a recurring job, its slot on the grid
    ready_at              timestamptz NOT NULL,          -- ageing counts from here, the lanes sort by it
    unmet_dependencies    integer NOT NULL DEFAULT 0 CHECK (unmet_dependencies >= 0),
    priority              smallint NOT NULL CHECK (priority BETWEEN 1 AND 3),
    attempt               smallint NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    replayed              boolean NOT NULL DEFAULT false, -- a replayed occurrence extends no chain
    status                text NOT NULL,
    type                  dilamme.job_type NOT NULL,
    on_dependency_failure text NOT NULL DEFAULT 'wait' CHECK (on_dependency_failure IN ('wait', 'cancel')),
    payload               jsonb NOT NULL,
    errors                jsonb NOT NULL DEFAULT '[]',   -- [{reason, message, attempt, at}], oldest first
    max_attempts          smallint CHECK (max_attempts BETWEEN 1 AND 25),
    started_at            timestamptz,
    finished_at           timestamptz,
    lease_expires_at      timestamptz,
    worker                uuid,                          -- the token of the slot whose worker holds it
    token                 uuid,                          -- the token of the claim: with id and attempt, the fence
    series_id             uuid REFERENCES dilamme.series (id),
    unknown_since         timestamptz,                   -- first met by a worker that does not know its type
    idempotency_key       text,
    result                jsonb,
    -- What a job of each status looks like. One expression: each CHECK is worked out anew at every change of a row.
    CONSTRAINT jobs_status_check CHECK (CASE status
        WHEN 'pending' THEN num_nulls(worker, token, lease_expires_at, finished_at, result) = 5
        WHEN 'running' THEN num_nulls(worker, token, lease_expires_at) = 0 AND num_nulls(finished_at, result) = 2
            AND attempt >= 1 AND started_at IS NOT NULL AND unmet_dependencies = 0
        WHEN 'completed' THEN num_nulls(worker, token, lease_expires_at) = 3 AND finished_at IS NOT NULL
        WHEN 'dead' THEN num_nulls(worker, token, lease_expires_at, result) = 4 AND finished_at IS NOT NULL
        WHEN 'cancelled' THEN num_nulls(worker, token, lease_expires_at, result) = 4 AND finished_at IS NOT NULL
        ELSE false
    END)
) WITH (
    -- Each job is updated twice or more in its short life: room for that on its own page, and a vacuum that comes
    -- after 1,000 dead rows plus 1 %, not after a fifth of the table.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

-- The lanes: one per priority, in the comparator's order. Blocked, running and finished rows are never in it; future
-- rows lie beyond `ready_at <= now` at a lane's tail. No lease or attempt column, so that it does not bloat with them.
CREATE INDEX jobs_lane ON dilamme.jobs (priority, ready_at, created_at, id)
    WHERE status = 'pending' AND unmet_dependencies = 0;
CREATE INDEX jobs_blocked ON dilamme.jobs (id) WHERE status = 'pending' AND unmet_dependencies > 0;
-- Not `WHERE status = 'running'`, which says the same: a settle would then be free to look for its jobs here, where every
-- job that ran leaves a dead entry until vacuum comes, instead of by their ids.
CREATE INDEX jobs_lease ON dilamme.jobs (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
-- Serves retention, the dead letters and the counts of what has ended.
CREATE INDEX jobs_finished ON dilamme.jobs (status, priority, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_idempotency_key ON dilamme.jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;

-- A series has one job a slot, for ever, and one live occurrence; a replayed one stands beside the chain.
CREATE UNIQUE INDEX jobs_series_slot ON dilamme.jobs (series_id, scheduled_at) WHERE series_id IS NOT NULL;
CREATE UNIQUE INDEX jobs_series_live ON dilamme.jobs (series_id)
    WHERE series_id IS NOT NULL AND status IN ('pending', 'running') AND NOT replayed;

-- The edges of the DAG. A parent cannot be deleted while an edge refers to it: the gate never opens by absence.
CREATE TABLE dilamme.job_dependencies (
    child_id  uuid NOT NULL REFERENCES dilamme.jobs (id) ON DELETE CASCADE,
    parent_id uuid NOT NULL REFERENCES dilamme.jobs (id) ON DELETE RESTRICT,
    PRIMARY KEY (child_id, parent_id),
    CHECK (child_id <> parent_id)
);
CREATE INDEX job_dependencies_parent ON dilamme.job_dependencies (parent_id, child_id);

-- A key lives as long as the last of its jobs.
CREATE TABLE dilamme.idempotency_keys (
    key          text PRIMARY KEY,
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    job_ids      uuid[] NOT NULL,
    refs         jsonb NOT NULL                          -- [ref or null], beside job_ids
);

-- What workers know about the types they run: the API and the rescue know no handler.
CREATE TABLE dilamme.job_types (
    type                 text PRIMARY KEY,
    max_attempts         smallint CHECK (max_attempts BETWEEN 1 AND 25),
    timeout_seconds      double precision CHECK (timeout_seconds > 0),
    backoff_base_seconds double precision CHECK (backoff_base_seconds > 0),
    backoff_cap_seconds  double precision CHECK (backoff_cap_seconds > 0),
    updated_at           timestamptz NOT NULL
);

-- At most N workers: one row each, moved by compare-and-set on the token.
CREATE TABLE dilamme.worker_slots (
    slot       integer PRIMARY KEY CHECK (slot >= 1),
    state      text NOT NULL DEFAULT 'free' CHECK (state IN ('free', 'invited', 'started')),
    token      uuid,
    held_until timestamptz,                              -- past it the tick frees the slot
    CHECK ((state = 'free') = (token IS NULL)),
    CHECK ((state = 'free') = (held_until IS NULL))
) WITH (fillfactor = 50);

-- One leader: a lease renewed every tick. The epoch grows with each leader.
CREATE TABLE dilamme.scheduler_lease (
    single        boolean PRIMARY KEY DEFAULT true CHECK (single),
    epoch         bigint NOT NULL DEFAULT 0,
    owner         uuid,
    expires_at    timestamptz NOT NULL,
    invited_until timestamptz NOT NULL,                  -- someone has invoked a scheduler: no need to do it again
    last_tick_at  timestamptz,
    swept_to      uuid                                   -- the sweep's cursor over blocked jobs
) WITH (fillfactor = 50);
INSERT INTO dilamme.scheduler_lease (expires_at, invited_until) VALUES ('-infinity', '-infinity');

-- Dead letters on their way to the queue: written with the death, deleted once sent.
CREATE TABLE dilamme.outbox (
    id        uuid PRIMARY KEY,
    job_id    uuid NOT NULL,
    message   jsonb NOT NULL,
    send_at   timestamptz NOT NULL                       -- pushed ahead while a leader is sending it
) WITH (fillfactor = 70);
CREATE INDEX outbox_send_at ON dilamme.outbox (send_at);
