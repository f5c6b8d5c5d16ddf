"""The list: for every invariant of ARCHITECTURE.md one or more deliberate faults, and where a test turns red.

A fault replaces a text that must occur exactly once, so that none goes stale unnoticed; the texts are short, so that few
do. Each names the files whose tests should fail: behaviour first, so a test that merely reads the source comes last.
"""

from dataclasses import dataclass

CODE = "shared/dilamme/"
SQL = CODE + "store/sql/"
LANES = SQL + "lanes.sql"
CLAIMS = SQL + "claims.sql"
DEPENDENCIES = SQL + "dependencies.sql"
JOBS = SQL + "jobs.sql"
SERIES = SQL + "series.sql"
SLOTS = SQL + "slots.sql"
LEASE = SQL + "lease.sql"
RETENTION = SQL + "retention.sql"
SCHEMA = CODE + "store/migrations/0001_initial.sql"
FUNCTION = CODE + "store/migrations/0005_submit.sql"
CONNECTION = CODE + "store/connection.py"
HEAP = CODE + "domain/min_heap.py"
WHEEL = CODE + "domain/timing_wheel.py"
LOOP = CODE + "worker/loop.py"
CLAIMING = CODE + "worker/claiming.py"
SETTLING = CODE + "worker/settling.py"
SETTLE = CODE + "usecases/settle.py"
CONSEQUENCES = CODE + "usecases/consequences.py"
NEXT = CODE + "usecases/series.py"
SUBMIT = CODE + "usecases/submit.py"
TICK = CODE + "scheduler/tick.py"
WAKE = CODE + "usecases/wake.py"
RESCUE = CODE + "usecases/rescue.py"


@dataclass(frozen=True)
class Fault:
    """``edits`` are (file, text, replacement); ``tests`` are names below tests/, without .py."""

    name: str
    invariant: int
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


def fault(invariant: int, name: str, file: str, old: str, new: str, *tests: str) -> Fault:
    """A fault of one edit."""
    return Fault(name, invariant, ((file, old, new),), tests)


FAULTS = [
    # 1. Nothing is lost.
    fault(1, "a lease that ran out is never looked for", CLAIMS,
          "job.lease_expires_at <= dilamme.clock()", "job.lease_expires_at <= '-infinity'", "integration/test_crashes"),
    fault(1, "a scheduler leaves although a lease may run out", LEASE,
          "AND lease_expires_at <= dilamme.clock() + %(ahead)s", "AND lease_expires_at <= timestamptz '-infinity' + %(ahead)s",
          "integration/test_crashes"),
    fault(1, "what a lost reply left running is not handed back", CLAIMING,
          "if job.id not in heard_of]", "if job.id in ()]", "integration/test_lost_replies"),
    fault(1, "what a lost start left running is not handed back", CLAIMING,
          "            settle(database.connection, unheard)\n", "", "integration/test_lost_replies"),
    fault(1, "a wrong counter is never mended", CODE + "scheduler/maintenance.py",
          "        _mend(connection, wrong)\n", "", "integration/test_dependencies"),
    fault(1, "dead letters that the queue refused are struck off", CODE + "scheduler/outbox.py",
          "outbox.sent(connection, ids)", "outbox.sent(connection, [letter.id for letter in letters])",
          "integration/test_outbox"),
    Fault("retention deletes the parent of a child that waits", 1, (
        (RETENTION, "child.status IN ('pending', 'running')\n          ORDER BY", "child.status IN ('none')\n          ORDER BY"),
        (RETENTION, "WHERE other.parent_id = edge.parent_id AND child.status IN ('pending', 'running'))",
         "WHERE other.parent_id = edge.parent_id AND child.status IN ('none'))"),
    ), ("integration/test_retention",)),
    fault(1, "a stored job does not wait for the disk", JOBS, "RETURNING\n-- include: is_free_and_due\n    ,",
          "RETURNING\n-- include: unflushed\n    ,\n-- include: is_free_and_due\n    ,", "unit/test_durability"),
    # 2. Nothing runs twice at once.
    fault(2, "the fence does not look at the token", CLAIMS, " AND job.token = %(token)s", "",
          "integration/test_crashes"),
    fault(2, "the fence does not look at the attempt", CLAIMS, "job.attempt = %(attempt)s AND ", "",
          "integration/test_crashes"),
    fault(2, "a running job can be cancelled", CODE + "usecases/cancel.py",
          "if job.status is not Status.PENDING:", "if job.status is Status.COMPLETED:",
          "integration/test_revisions", "integration/test_series", "functions/test_api_revise"),
    fault(2, "two occurrences of a series may live", SCHEMA, "CREATE UNIQUE INDEX jobs_series_live", "CREATE INDEX jobs_series_live",
          "integration/test_constraints"),
    # 3. Every statement repeats the state it expects.
    fault(3, "the claim's lock does not repeat that the job is pending", LANES,
          "job.status = 'pending' AND job.unmet_dependencies <= 0", "job.unmet_dependencies <= 0",
          "integration/test_exactness"),
    fault(3, "the claim waits for rivals' locks", LANES, "FOR NO KEY UPDATE OF job SKIP LOCKED", "FOR NO KEY UPDATE OF job",
          "integration/test_exactness"),
    fault(3, "the claim's lock meets the foreign keys'", LANES, "FOR NO KEY UPDATE OF job SKIP", "FOR UPDATE OF job SKIP",
          "integration/test_exactness"),
    fault(3, "a handed-out id is claimed however old the choice is", LANES,
          "%(ticked_at)s::timestamptz >= dilamme.clock() - %(fresh)s::interval",
          "%(ticked_at)s::timestamptz IS NOT NULL AND %(fresh)s::interval IS NOT NULL", "integration/test_order"),
    # 4. The lease outlives the worker's deadline; a handler past its time ends the process.
    fault(4, "the lease ends before the worker does", CLAIMING,
          "lease_seconds=self._worker.hold_seconds()", "lease_seconds=0.5",
          "integration/test_lease"),
    fault(4, "a handler past its time does not end its process", LOOP,
          "        )\n        self._worker.end_process(1)", "        )",
          "integration/test_timeouts"),
    fault(4, "a handler that holds the interpreter past its time does not end its process", CODE + "worker/watchdog.py",
          "exit=True", "exit=False", "e2e/test_misbehaviour"),
    fault(4, "a timeout that does not fit is let through", CODE + "handlers/registry.py",
          "job_type.timeout_seconds > limit_seconds", "job_type.timeout_seconds < 0", "unit/test_registry"),
    # 5. A reported worker's jobs are free at once, and only those.
    fault(5, "a report frees what other workers hold", CLAIMS, "AND job.worker = %(worker)s", "AND %(worker)s::uuid IS NOT NULL",
          "integration/test_crashes"),
    fault(5, "a report keeps the slot of the lost worker", RESCUE, "    slots.free(connection, [worker])\n", "",
          "integration/test_crashes", "functions/test_rescue_events"),
    fault(5, "a report about a scheduler deposes nobody", RESCUE, "if lease.depose(", "if not lease.depose(",
          "integration/test_crashes", "functions/test_rescue_events"),
    # 6. An attempt is a claim that was not handed back.
    fault(6, "one attempt more than the most", CODE + "domain/outcome.py", "job.attempt >= job.max_attempts", "job.attempt > job.max_attempts",
          "unit/test_outcome", "integration/test_retry"),
    fault(6, "a return costs an attempt", CLAIMS, "attempt = job.attempt - 1", "attempt = job.attempt", "integration/test_batches"),
    fault(6, "a job on its last attempt has company", LANES, "(weight_so_far < 1000000000 OR %(idle)s)", "%(idle)s IS NOT NULL", "integration/test_crashes"),
    fault(6, "a claim does not count", LANES, "attempt = job.attempt + 1, started_at", "attempt = greatest(1, job.attempt), started_at",
          "integration/test_retry", "integration/test_crashes"),
    # 7. No claimed job waits unstarted.
    fault(7, "a job that waits too long is not returned", LOOP, "else now - self._settings.batch_wait_seconds)", "else now - 1000)",
          "integration/test_batches"),
    fault(7, "a job that does not fit is started", LOOP, "needs > room and", "needs < 0 and", "integration/test_batches"),
    fault(7, "a worker that leaves wakes nobody", SETTLING, "if settlement.due and self._state.leaving:", "if settlement.due and not self._state.leaving:",
          "integration/test_batches"),
    fault(7, "a type not yet timed counts as fast", CODE + "domain/durations.py", "UNSEEN_SECONDS = 1.0", "UNSEEN_SECONDS = 0.001",
          "unit/test_durations", "integration/test_batches"),
    # 8. One clock.
    fault(8, "a retry is timed by another clock", CLAIMS,
          "    ready_at = dilamme.clock() +", "    ready_at = now() +",
          "integration/test_order", "integration/test_retry"),
    fault(8, "the grid is asked by the host's clock", NEXT, "now = series.clock(connection)", "now = __import__('datetime').datetime.now().astimezone()",
          "integration/test_series"),
    fault(8, "a choice is stamped when it is sent, not with its tick's now", TICK, "ticked_at=now)", "ticked_at=datetime.now().astimezone())",
          "integration/test_order", "integration/test_delivery"),
    # 9. One leader.
    fault(9, "a scheduler that was replaced ticks on", LEASE,
          "WHERE epoch = %(epoch)s AND owner = %(owner)s\nRETURNING dilamme.clock() AS now",
          "WHERE %(epoch)s::bigint IS NOT NULL AND %(owner)s::uuid IS NOT NULL\nRETURNING dilamme.clock() AS now", "integration/test_delivery"),
    fault(9, "a missed tick is made up for", CODE + "scheduler/lead.py", "deadline + (missed + 1) * tick_seconds", "deadline + tick_seconds",
          "unit/test_lead"),
    # 10. At most N workers.
    fault(10, "an event works twice", SLOTS, "token = %(worker)s AND state = 'invited'", "token = %(worker)s", "integration/test_delivery"),
    fault(10, "an event works in a slot that is another's", SLOTS,
          "slot = %(slot)s AND token = %(worker)s AND state", "slot = %(slot)s AND %(worker)s::uuid IS NOT NULL AND state",
          "integration/test_delivery"),
    fault(10, "an event claims without a slot", LANES, "SELECT head.* FROM started CROSS JOIN (",
          "SELECT head.* FROM (VALUES (1)) AS unasked CROSS JOIN (", "integration/test_delivery"),
    fault(2, "a lost start returns a twin's jobs", CLAIMING, "if job.token == fence]", "if job.token]",
          "integration/test_lost_replies"),
    Fault("a slot in use is invited into", 10, (
        (SLOTS, "WHERE state = 'free' AND slot <= %(slots)s\n    ORDER BY slot LIMIT cardinality", "WHERE slot <= %(slots)s\n    ORDER BY slot LIMIT cardinality"),
        (SLOTS, "WHERE worker_slot.slot = dealt.slot AND worker_slot.state = 'free'", "WHERE worker_slot.slot = dealt.slot"),
    ), ("integration/test_delivery", "integration/test_wake")),
    Fault("a posted job is given a slot in use", 10, (
        (SLOTS, "state = 'free' AND slot = (", "slot = ("),
        (SLOTS, "WHERE state = 'free' AND slot <= %(slots)s\n    ORDER BY slot LIMIT 1", "WHERE slot <= %(slots)s\n    ORDER BY slot LIMIT 1"),
    ), ("integration/test_wake", "integration/test_delivery")),
    fault(10, "a refused invocation keeps its slot", WAKE, "if not all(taken):", "if all(taken):",
          "integration/test_delivery"),
    fault(10, "a worker that came is taken its slot back", SLOTS, "AND state = 'invited'\nRETURNING slot\n\n-- name: free_overdue",
          "AND state <> 'free'\nRETURNING slot\n\n-- name: free_overdue", "integration/test_delivery"),
    # 11. No lost wake-up.
    fault(11, "a worker leaves without a second look", CLAIMING, "if not lanes.work_left(connection):", "if True:", "integration/test_wake"),
    fault(11, "what is posted wakes nobody", "functions/api/handler.py", "    _wake(connection, due=receipt.due, later=receipt.later)\n", "",
          "functions/test_api_submit"),
    fault(11, "who finds no slot thinks that somebody leads", WAKE,
          "if nobody_leads and (later", "if not nobody_leads and (later", "integration/test_wake"),
    fault(11, "a job freed by its lease wakes nobody", TICK, "if expire(connection, settings).due:", "if not expire(connection, settings):",
          "integration/test_crashes"),
    fault(11, "a thousand callers call a thousand schedulers", LEASE, "AND invited_until <= dilamme.clock()\nRETURNING", "AND invited_until IS NOT NULL\nRETURNING",
          "integration/test_wake"),
    # 12. Pooler-proof.
    fault(12, "statements are prepared on the server", CONNECTION, "prepare_threshold=None", "prepare_threshold=0",
          "unit/test_pooler_proof"),
    fault(12, "the limits outlive their transaction", CODE + "store/session_settings.py", "SET LOCAL statement_timeout = '20s'; ", "SET statement_timeout = '20s'; ",
          "integration/test_connections", "unit/test_pooler_proof"),
    fault(12, "a transaction is bequeathed to the next invocation", CODE + "session.py", "        connection.rollback()", "        _ = connection",
          "integration/test_connections"),
    fault(12, "a session that takes no writes is kept", CODE + "session.py", '.fetchone() == ("off",)', ".fetchone() is not None",
          "functions/test_api_changes"),
    fault(12, "the loop fails on a session that takes no writes", CODE + "store/faults.py",
          '    "25006": Remedy.RECONNECT,', '    "25006": Remedy.GIVE_UP,', "integration/test_connections"),
    fault(12, "a refused settle is taken for a lost connection", CODE + "store/faults.py",
          '    "54": Remedy.SPLIT,', '    "54": Remedy.RECONNECT,', "integration/test_refusals"),
    fault(12, "a settle has no bound in size", CODE + "usecases/settle.py",
          "characters + length > PART_CHARACTERS_MAX and place > start", "False", "integration/test_refusals"),
    fault(12, "a claim has no bound in size", SQL + "lanes.sql",
          "weight_so_far <= %(characters)s OR", "weight_so_far < 1000000000 OR %(characters)s < 0 OR", "integration/test_prefetch"),
    fault(13, "a cascade ends with its first step", CODE + "usecases/consequences.py",
          "    dependencies.note_cascades(connection, left | {job.id: dependencies.FIRST for job in cancelled})\n", "",
          "integration/test_cascades"),
    fault(11, "each parent moves its child's ready time", SQL + "dependencies.sql",
          "CASE WHEN job.unmet_dependencies = freed.parents THEN greatest(job.ready_at, dilamme.clock()) ELSE job.ready_at END",
          "greatest(job.ready_at, dilamme.clock())", "integration/test_dag_races"),
    fault(7, "a key goes with the first occurrence of its series", CODE + "scheduler/maintenance.py",
          "                series.keep_keys(connection, kept)\n", "                pass\n", "integration/test_retention"),
    fault(12, "the isolation is the database's", CONNECTION, "    connection.isolation_level = ISOLATION\n", "",
          "integration/test_session_settings"),
    # 13. One way to end.
    fault(13, "a recurring job that dies has no next occurrence", CONSEQUENCES,
          "    extend_series(connection, ended)\n", "", "integration/test_series"),
    fault(13, "the next occurrence is counted from the end of the run", CODE + "domain/recurrence.py",
          "return previous + (behind // interval + 1) * interval", "return max(previous, now) + interval", "unit/test_recurrence", "integration/test_series"),
    fault(13, "what was missed in an outage is run one by one", CODE + "domain/recurrence.py", "(behind // interval + 1)", "1",
          "unit/test_recurrence", "integration/test_series"),
    Fault("a series that has ended goes on", 13, (
        (NEXT, " if one.ended_at is None}", "}"),
        (SERIES, "WHERE series.ended_at IS NULL AND NOT previous.replayed", "WHERE NOT previous.replayed"),
    ), ("integration/test_series",)),
    Fault("a replayed occurrence extends its chain", 13, (
        (NEXT, "if job.series_id is not None and not job.replayed}", "if job.series_id is not None}"),
        (SERIES, "WHERE series.ended_at IS NULL AND NOT previous.replayed", "WHERE series.ended_at IS NULL"),
        # The index alone would hold it: a series that goes on always has a live occurrence.
        (SCHEMA, "CREATE UNIQUE INDEX jobs_series_live", "CREATE INDEX jobs_series_live"),
    ), ("integration/test_series",)),
    fault(13, "a death is not announced", CONSEQUENCES, "    if ended:\n        # Without", "    if not ended:\n        # Without", "integration/test_crashes"),
    fault(13, "the gate is the counter alone", LANES, "AND parent.status <> 'completed')\n    ORDER BY effective",
          "AND parent.status = 'none')\n    ORDER BY effective", "integration/test_dependencies"),
    fault(13, "a child is counted down by one, however many parents ended", DEPENDENCIES, "job.unmet_dependencies - freed.parents", "job.unmet_dependencies - 1",
          "integration/test_dependencies"),
    fault(13, "a released child keeps the ready time it was born with", DEPENDENCIES, "THEN greatest(job.ready_at, dilamme.clock()) ELSE job.ready_at END\nFROM freed",
          "THEN job.ready_at ELSE job.ready_at END\nFROM freed", "integration/test_order"),
    fault(13, "only the first generation is cancelled with its parent", DEPENDENCIES, "SELECT id FROM descendant OFFSET", "SELECT id FROM descendant WHERE after <> '00000000-0000-0000-0000-000000000000' OFFSET",
          "integration/test_dependencies", "integration/test_cascades"),
    # 14. One lock order, and a use case repeated when two met all the same.
    fault(14, "a deadlock reaches the caller", CONNECTION, "except _CONFLICTS:", "except ZeroDivisionError:",
          "integration/test_conflicts"),
    fault(14, "parents are locked in another order", DEPENDENCIES, "ORDER BY id FOR SHARE", "ORDER BY id DESC FOR SHARE",
          "integration/test_dag_races", "unit/test_locks"),
    fault(14, "a new child does not hold off its parent's end", DEPENDENCIES, "ORDER BY id FOR SHARE", "ORDER BY id FOR KEY SHARE",
          "integration/test_dag_races"),
    fault(14, "a batch's settle waits for a caller's transaction", SETTLE, "locked = isinstance(error, psycopg.errors.LockNotAvailable)", "locked = False",
          "integration/test_dag_races"),
    # 15. What PostgreSQL can hold, it holds.
    fault(15, "a job may depend on itself", SCHEMA, "    CHECK (child_id <> parent_id)", "    CHECK (child_id IS NOT NULL)", "integration/test_constraints"),
    fault(15, "a parent can be deleted from under its edge", SCHEMA, "ON DELETE RESTRICT", "ON DELETE CASCADE", "integration/test_constraints"),
    fault(15, "a job may run without a lease", SCHEMA, "WHEN 'running' THEN num_nulls(worker, token, lease_expires_at) = 0", "WHEN 'running' THEN num_nulls(worker, token) = 0",
          "integration/test_constraints"),
    fault(15, "two jobs of a series may have one slot", SCHEMA, "CREATE UNIQUE INDEX jobs_series_slot", "CREATE INDEX jobs_series_slot",
          "integration/test_constraints"),
    # The SQL function: the same rules, once more.
    fault(1, "a child that SQL stores does not hold its parent still", FUNCTION, "WHERE job.id = parent FOR SHARE;", "WHERE job.id = parent;",
          "integration/test_sql_submit"),
    fault(15, "anybody may call the SQL function", FUNCTION, "REVOKE ALL ON FUNCTION dilamme.submit, ", "REVOKE ALL ON FUNCTION ",
          "integration/test_sql_submit"),
    fault(15, "a caller's types run with the rights of the SQL function's owner", FUNCTION, "SET search_path = pg_catalog, pg_temp",
          "SET search_path = pg_catalog", "integration/test_sql_submit"),
    fault(15, "the SQL function takes any depth", FUNCTION, "'strict $.**{200} ? (@.type() == ", "'strict $.**{2000} ? (@.type() == ",
          "integration/test_sql_submit", "integration/test_sql_submit_equals"),
    fault(0, "ids that SQL makes are in no order within a millisecond", FUNCTION, "lpad(to_hex(microsecond % 1000 * 4096 / 1000), 3, '0')",
          "'000'", "integration/test_sql_submit"),
    fault(0, "the SQL function hashes DEL as it is", FUNCTION, "WHEN code BETWEEN 32 AND 126 THEN", "WHEN code BETWEEN 32 AND 127 THEN",
          "integration/test_sql_submit_equals"),
    fault(0, "the SQL function starts a series that is cancelled", FUNCTION, "submit.interval_seconds IS NOT NULL AND NOT is_failed",
          "submit.interval_seconds IS NOT NULL", "integration/test_sql_submit"),
    fault(0, "a key that SQL took is another to Python", SUBMIT, "request_hash(batch, of_kept=True)", "request_hash(batch)",
          "integration/test_submit_async", "integration/test_sql_submit_equals"),
    # The structures and formulas that the invariants rest on: order (0).
    fault(0, "the heap sinks the greater child", HEAP, "if heap[child + 1] < heap[child]:", "if heap[child] < heap[child + 1]:", "unit/test_min_heap"),
    fault(0, "the heap's run is not sorted", HEAP, "            run.sort(reverse=True)", "            run.reverse()", "unit/test_min_heap"),
    fault(0, "the wheel hands out a microsecond late", WHEEL, "if due_us <= now_us]", "if due_us < now_us]", "unit/test_timing_wheel"),
    fault(0, "ageing steps a microsecond late in SQL", LANES, "- (job.ready_at <= coalesce(dilamme.clock() - %(ageing)s",
          "- (job.ready_at < coalesce(dilamme.clock() - %(ageing)s", "integration/test_order_properties"),
    fault(0, "ageing steps a second time too late in Python", CODE + "domain/priority.py", "priority - wait // step", "priority - wait // (step + 1)",
          "unit/test_priority"),
    fault(0, "the tick's key ages a microsecond late", CODE + "domain/priority.py", "else moment + _MICROSECOND", "else moment",
          "unit/test_priority"),
    fault(0, "times keep the server's zone", CONNECTION, "in _UTC_NAMES else _ADAPTERS_TO_UTC",
          "in _UTC_NAMES else _ADAPTERS", "integration/test_series", "integration/test_connections"),
    fault(0, "a batch's own dependencies are not counted", SUBMIT, " + len(parents))", ")",
          "integration/test_library", "integration/test_batches"),
    fault(0, "a time in the past buys age", JOBS, "greatest(s.scheduled_at, dilamme.clock()),", "coalesce(s.scheduled_at, dilamme.clock()),",
          "integration/test_order"),
    fault(0, "the jitter is gone", CODE + "domain/retry.py", "whole / 2 + whole / 2 * rand", "whole", "unit/test_retry"),
    fault(0, "a key stands for any body", SUBMIT, "kept.request_hash != asked", "kept.request_hash is None",
          "integration/test_idempotency"),
    fault(0, "a replay of what lives revives it again", JOBS,
          "    SELECT id FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[]) AND status = 'dead' ORDER BY id FOR NO KEY UPDATE))",
          "    SELECT id FROM dilamme.jobs WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE))", "unit/test_transitions"),
]  # fmt: skip
