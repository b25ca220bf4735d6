//! The statements that write the books back.
//!
//! Each is planned once, perhaps while the table was empty, and must not walk over all of it later:
//! rows are found by `id = ANY($1)`. What belongs to a row is found by the place of its id, for which
//! the ids are in order ([`of_row`]): a join with the list would compare everything with everything.

/// The element of an array that belongs to the row `l`. `$1` has the ids, in order.
macro_rules! of_row {
    ($array:literal) => {
        concat!("(", $array, ")[width_bucket(l.id, $1)]")
    };
}
pub(in crate::postgres) use of_row;

/// Writes whole states. The list has few enough for a join.
pub(super) const UPDATE_STATES: &str = "UPDATE email_log l SET status = u.status, phase = u.phase,
         attempt_number = u.attempt_number, attempt_count = u.attempt_count,
         budget_from = u.budget_from, max_attempts = u.max_attempts,
         next_attempt_at = u.next_attempt_at, locked_until = u.locked_until,
         lease_token = u.lease_token, worker = u.worker, started_at = u.started_at,
         lost_count = u.lost_count, unknown_count = u.unknown_count,
         possible_duplicate = u.possible_duplicate, last_queued_at = u.last_queued_at,
         last_error = u.last_error, error_class = u.error_class, dead_reason = u.dead_reason,
         fingerprint = u.fingerprint, sent_at = u.sent_at, finished_at = u.finished_at,
         inline = u.inline, waiting_for = u.waiting_for, waits_until = u.waits_until,
         transport = u.transport, bound_to = u.bound_to, tried = u.tried,
         ignores_expiry = u.ignores_expiry
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int4[], $5::int4[], $6::int4[],
             $7::int4[], $8::timestamptz[], $9::timestamptz[], $10::int8[], $11::text[],
             $12::timestamptz[], $13::int4[], $14::int4[], $15::bool[], $16::timestamptz[],
             $17::text[], $18::text[], $19::text[], $20::text[], $21::timestamptz[],
             $22::timestamptz[], $23::bool[], $24::text[], $25::timestamptz[], $26::text[],
             $27::text[], $28::text[], $29::bool[])
         AS u (id, status, phase, attempt_number, attempt_count, budget_from, max_attempts,
             next_attempt_at, locked_until, lease_token, worker, started_at, lost_count,
             unknown_count, possible_duplicate, last_queued_at, last_error, error_class,
             dead_reason, fingerprint, sent_at, finished_at, inline, waiting_for, waits_until,
             transport, bound_to, tried, ignores_expiry)
     WHERE l.id = u.id AND l.id = ANY($1)";

/// What must still hold of states that were taken for granted: `$2` and `$3`.
macro_rules! is_held {
    () => {
        concat!(
            "l.id = ANY($1) AND l.status = 'sending' AND l.lease_token = ",
            of_row!("$2::int8[]"),
            " AND l.phase = ",
            of_row!("$3::text[]")
        )
    };
}

/// Changes those that were taken for granted. Unless all of them were right, nothing may be
/// committed: that is what the division is for.
macro_rules! fenced {
    ($($set:expr),+ $(,)?) => {
        concat!(
            "WITH done AS (UPDATE email_log l SET ",
            $($set,)+
            " WHERE ",
            is_held!(),
            " RETURNING 1)
             SELECT 1 / (cardinality($1) = (SELECT count(*) FROM done))::int"
        )
    };
}

/// What being taken by a scheduler changes, mostly.
pub(super) const UPDATE_CLAIMED: &str = concat!(
    "UPDATE email_log l SET status = 'retry_queued', locked_until = ",
    of_row!("$2::timestamptz[]"),
    " WHERE l.id = ANY($1)"
);

/// What a beginning changes, also if it was taken for it in the same breath.
pub(super) const UPDATE_BEGUN: &str = concat!(
    "UPDATE email_log l SET status = 'sending', phase = ",
    of_row!("$2::text[]"),
    ", attempt_number = ",
    of_row!("$3::int4[]"),
    ", locked_until = ",
    of_row!("$4::timestamptz[]"),
    ", lease_token = ",
    of_row!("$5::int8[]"),
    ", worker = ",
    of_row!("$6::text[]"),
    ", started_at = ",
    of_row!("$7::timestamptz[]"),
    " WHERE l.id = ANY($1)"
);

/// No index holds these columns.
pub(super) const UPDATE_GATED: &str = concat!(
    "UPDATE email_log l SET phase = 'committing', transport = ",
    of_row!("$2::text[]"),
    " WHERE l.id = ANY($1)"
);
pub(super) const UPDATE_GATED_FENCED: &str =
    fenced!("phase = 'committing', transport = ", of_row!("$4::text[]"));

/// What the end of an attempt that succeeded changes, mostly.
macro_rules! sent {
    ($count:literal, $sent_at:literal, $finished_at:literal) => {
        concat!(
            "status = 'sent', phase = 'idle', next_attempt_at = NULL, locked_until = NULL,
             worker = NULL, started_at = NULL, attempt_count = ",
            of_row!($count),
            ", sent_at = ",
            of_row!($sent_at),
            ", finished_at = ",
            of_row!($finished_at)
        )
    };
}
pub(super) const UPDATE_SENT: &str = concat!(
    "UPDATE email_log l SET ",
    sent!("$2::int4[]", "$3::timestamptz[]", "$4::timestamptz[]"),
    " WHERE l.id = ANY($1)"
);
pub(super) const UPDATE_SENT_FENCED: &str = fenced!(sent!(
    "$4::int4[]",
    "$5::timestamptz[]",
    "$6::timestamptz[]"
));

/// Says whether rows that are about to be written as a whole are as they were taken for granted,
/// and locks them.
pub(super) const CHECK_ASSUMED: &str = concat!(
    "WITH held AS (SELECT l.id FROM email_log l WHERE ",
    is_held!(),
    " ORDER BY l.id FOR UPDATE OF l)
     SELECT 1 / (cardinality($1) = (SELECT count(*) FROM held))::int"
);

/// Records attempts. The same number again is late proof: it replaces what was assumed. A list that
/// ends before the others is filled up with nulls. (Lists that are taken apart in a SELECT are read as
/// they are; in FROM, PostgreSQL copies each of them first.)
macro_rules! record {
    ($id:literal, $number:literal, $started:literal, $finished:literal, $outcome:literal,
     $class:literal, $error:literal, $reply:literal, $transport:literal, $worker:literal,
     $budget:literal, $next:literal, $stage:literal, $provider:literal, $free:literal) => {
        concat!(
            "INSERT INTO email_attempt (email_id, number, started_at, finished_at, outcome,
                 error_class, error, reply, transport, worker, budget, next_attempt_at, stage,
                 provider_id, is_free)
             SELECT u.id, u.number, u.started_at, u.finished_at, u.outcome, u.error_class, u.error,
                 u.reply, u.transport, u.worker, u.budget, u.next_attempt_at, u.stage,
                 u.provider_id, u.is_free IS TRUE
             FROM (SELECT unnest(", $id, "::uuid[]) AS id, unnest(", $number, "::int4[]) AS number,
                     unnest(", $started, "::timestamptz[]) AS started_at,
                     unnest(", $finished, "::timestamptz[]) AS finished_at,
                     unnest(", $outcome, "::text[]) AS outcome,
                     unnest(", $class, "::text[]) AS error_class,
                     unnest(", $error, "::text[]) AS error, unnest(", $reply, "::text[]) AS reply,
                     unnest(", $transport, "::text[]) AS transport,
                     unnest(", $worker, "::text[]) AS worker,
                     unnest(", $budget, "::int4[]) AS budget,
                     unnest(", $next, "::timestamptz[]) AS next_attempt_at,
                     unnest(", $stage, "::text[]) AS stage,
                     unnest(", $provider, "::text[]) AS provider_id,
                     unnest(", $free, "::bool[]) AS is_free) AS u
             ON CONFLICT (email_id, number) DO UPDATE SET finished_at = excluded.finished_at,
                 outcome = excluded.outcome, error_class = excluded.error_class,
                 error = excluded.error, reply = excluded.reply, transport = excluded.transport,
                 budget = excluded.budget, next_attempt_at = excluded.next_attempt_at,
                 stage = excluded.stage, provider_id = excluded.provider_id,
                 is_free = excluded.is_free"
        )
    };
}
pub(super) const INSERT_ATTEMPTS: &str = record!(
    "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15"
);

pub(super) const SET_FREE: &str = "UPDATE email_attempt a SET is_free = true
     FROM unnest($1::uuid[], $2::int4[]) AS u (id, number)
     WHERE a.email_id = u.id AND a.number = u.number";

pub(super) const SAVE_RECIPIENTS: &str =
    "INSERT INTO recipient (email_id, position, address, status, detail, reason)
     SELECT * FROM unnest($1::uuid[], $2::int4[], $3::text[], $4::text[], $5::text[], $6::text[])
     ON CONFLICT (email_id, position) DO UPDATE SET status = excluded.status,
         detail = excluded.detail, reason = excluded.reason";

pub(super) const REVIVE_ALIKE: &str =
    "DELETE FROM recipient r WHERE r.email_id = ANY($1) AND NOT EXISTS
         (SELECT 1 FROM recipient o WHERE o.email_id = r.email_id AND o.status = 'accepted')";
pub(super) const REVIVE: &str = "UPDATE recipient SET status = 'waiting', reason = NULL
     WHERE email_id = ANY($1) AND status = 'dead'";

pub(super) const GIVE_UP: &str = "UPDATE recipient r SET status = 'dead', reason = u.reason
     FROM unnest($1::uuid[], $2::text[]) AS u (id, reason)
     WHERE r.email_id = u.id AND r.status = 'waiting'";

pub(super) const REACH: &str =
    "UPDATE recipient SET status = 'accepted' WHERE email_id = ANY($1) AND status = 'waiting'";

pub(super) const INSERT_DEATHS: &str = "INSERT INTO event (kind, email_id, at, reason, error, attempts)
     SELECT 'email_dead', u.id, $5::timestamptz, u.reason, u.error, u.attempts
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int4[]) AS u (id, reason, error, attempts)";

/// For the alerts. An error that nobody has a fingerprint of goes by its reason.
pub(super) const INSERT_ALERTS: &str =
    "INSERT INTO death (email_id, at, reason, fingerprint, error)
     SELECT u.id, $5::timestamptz, u.reason, coalesce(u.fingerprint, u.reason), u.error
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[])
         AS u (id, reason, error, fingerprint)";

/// Entries of the audit log, one after the other.
pub(in crate::postgres) const INSERT_AUDIT: &str =
    "INSERT INTO audit_log (at, actor, action, subject, result)
     SELECT $5::timestamptz, u.actor, u.action, u.subject, u.result
     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY
         AS u (actor, action, subject, result, n) ORDER BY u.n";

/// Counts emails that went from one state to another, in the order of the key, so that two
/// transactions never wait for each other in a circle.
macro_rules! count {
    ($minute:literal, $slot:literal, $before:literal, $after:literal, $n:literal) => {
        concat!(
            "INSERT INTO stat (minute, from_status, to_status, slot, n)
             SELECT ",
            $minute,
            "::int8, u.from_status, u.to_status, ",
            $slot,
            "::int4, u.n
             FROM unnest(",
            $before,
            "::text[], ",
            $after,
            "::text[], ",
            $n,
            "::int8[])
                 AS u (from_status, to_status, n)
             ORDER BY 2, 3
             ON CONFLICT (minute, from_status, to_status, slot)
                 DO UPDATE SET n = stat.n + excluded.n"
        )
    };
}
pub(super) const COUNT: &str = count!("$1", "$2", "$3", "$4", "$5");

/// All that there is to write about attempts that succeeded and were taken for granted: being one
/// statement, it is a transaction without further words.
pub(super) const CONCLUDE: &str = concat!(
    "WITH done AS (UPDATE email_log l SET ",
    sent!("$4::int4[]", "$5::timestamptz[]", "$6::timestamptz[]"),
    " WHERE ",
    is_held!(),
    " RETURNING 1), recorded AS (",
    record!(
        "$7", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$16", "$17", "$18", "$19",
        "$20", "$21"
    ),
    "), counted AS (",
    count!("$22", "$23", "$24", "$25", "$26"),
    ") SELECT 1 / (cardinality($1) = (SELECT count(*) FROM done))::int"
);

/// What is written for every email, or for every one that fails.
pub(in crate::postgres) const HOT_WRITES: [&str; 10] = [
    UPDATE_STATES,
    UPDATE_CLAIMED,
    UPDATE_BEGUN,
    UPDATE_GATED,
    UPDATE_GATED_FENCED,
    UPDATE_SENT,
    UPDATE_SENT_FENCED,
    CHECK_ASSUMED,
    CONCLUDE,
    INSERT_ATTEMPTS,
];

/// What erasing does. Who accepted the email stays on record: it explains attempts that were
/// sent more than once. Replies and errors often repeat the address.
pub(in crate::postgres) const ERASE: [&str; 9] = [
    "UPDATE email SET content = '', subject = '', header_from = '', header_to = '[]',
         recipients = '[]', first_recipient = '', metadata = '{}', envelope_from = '',
         erased_at = posthaste_now()
     WHERE id = ANY($1)",
    "UPDATE recipient SET address = '', detail = NULL WHERE email_id = ANY($1)",
    "DELETE FROM capture WHERE email_id = ANY($1)",
    "UPDATE email_attempt SET error = NULL, reply = NULL WHERE email_id = ANY($1)",
    "UPDATE email_log SET last_error = NULL WHERE id = ANY($1)",
    "UPDATE event SET error = NULL WHERE email_id = ANY($1)",
    // What is said about ways out names nobody, and stays.
    "UPDATE death SET error = NULL WHERE email_id = ANY($1)
         AND reason NOT IN ('TransportStopped', 'TransportRecovered')",
    // In the order of the key, as whoever counts deaths.
    "SELECT 1 FROM alert_group WHERE email_id = ANY($1)
     ORDER BY channel, taken, fingerprint FOR UPDATE",
    "UPDATE alert_group SET sample = NULL WHERE email_id = ANY($1)
         AND reason NOT IN ('TransportStopped', 'TransportRecovered')",
];

/// What removing does.
pub(super) const REMOVE: [&str; 4] = [
    "DELETE FROM email_log WHERE id = ANY($1)",
    "DELETE FROM email WHERE id = ANY($1)",
    "DELETE FROM email_attempt WHERE email_id = ANY($1)",
    "DELETE FROM recipient WHERE email_id = ANY($1)",
];
