-- name: begin
-- The locks of a turn, none of which is of a row: on the charter, shared by all turns, and its own.
-- Between them, what was read so far.
SELECT
    pg_advisory_xact_lock_shared('{schema}.head'::regclass::oid::integer, 0),
    {entries_read},
    {own_locks};

-- name: close
-- Whether no turn in somebody else's transaction is under way, nor will be before this one ends. Who
-- would wait for it instead would have all that come after wait as well.
SELECT pg_try_advisory_xact_lock('{schema}.head'::regclass::oid::integer, 1);

-- name: begin_alone
-- The same for a turn that changes the charter: when it has the lock, no other is under way.
SELECT
    pg_advisory_xact_lock('{schema}.head'::regclass::oid::integer, 0),
    {entries_read},
    {own_locks};

-- name: begin_within
-- The same for a turn in somebody else's transaction, which may last, so that the lock on the charter
-- is another: only who closes something has to do with it.
SELECT
    pg_advisory_xact_lock_shared('{schema}.head'::regclass::oid::integer, 1),
    {own_locks};

-- name: be_impatient
-- No lock is waited for longer than that in the caller's transaction, unless it has a limit of its
-- own, which is the answer. To go back to the savepoint undoes this, too. Parameters: limit.
SELECT current_setting('lock_timeout'), CASE current_setting('lock_timeout')
    WHEN '0' THEN set_config('lock_timeout', %(limit)s::text, true)
END;

-- name: be_patient
-- The caller's own statements wait again without one.
SELECT set_config('lock_timeout', '0', true);

-- name: isolation
-- How much of the caller's transaction lies in the past.
SELECT current_setting('transaction_isolation');

-- name: place
-- Which queue this is, among all databases of all servers.
SELECT '{schema}.head'::regclass::oid::bigint, pg_postmaster_start_time()::text;

-- name: head
-- Where the queue is. `readable` ends below the turns under way, by their locks. Those are looked at
-- after the snapshot was taken: a lower number than the newest in it was given before, so its turn
-- shows its lock, or has ended and is seen by whoever looks next. A lock has a number's lower 31 bits.
SELECT
    newest.number,
    latest.at,
    (SELECT coalesce(sum(completed), 0)::bigint FROM {schema}.shards),
    head.charter,
    head.charter_version,
    newest.number + least(0, (
        SELECT min(
            mod(objid::bigint - mod(newest.number, 2147483648) + 3221225472, 2147483648)
                - 1073741824
        )
        FROM pg_locks
        WHERE locktype = 'advisory' AND classid = '{schema}.commits'::regclass AND objsubid = 2
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND pid <> pg_backend_pid()
    )),
    latest.clock
FROM {schema}.head
CROSS JOIN LATERAL (
    SELECT greatest(
        head.commit_number, (SELECT number FROM {schema}.commits ORDER BY number DESC LIMIT 1)
    ) AS number
) AS newest
CROSS JOIN (
    SELECT at, clock FROM {schema}.shards
    UNION ALL SELECT 0, 0
    ORDER BY at DESC LIMIT 1
) AS latest;

-- name: by_id
-- The records with these ids; not locked, since versions are compared when they are written.
-- Parameters: tenants, ids.
SELECT job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body
FROM unnest(%(tenants)b::text[], %(ids)b::text[]) AS wanted (tenant, id)
JOIN {schema}.jobs AS job ON job.tenant = wanted.tenant AND job.id = wanted.id;

-- name: by_claim
-- The running records that these claims have, by nothing but their hashes. Parameters: tenants,
-- claims.
SELECT job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body
FROM unnest(%(tenants)b::text[], %(claims)b::text[]) AS wanted (tenant, claim)
JOIN {schema}.jobs AS job
    ON hashtextextended(job.claim, 0) = hashtextextended(wanted.claim COLLATE "C", 0)
WHERE job.claim = wanted.claim AND (job.tenant = wanted.tenant) IS TRUE;

-- name: fronts
-- The first records of each shelf: up to a time, but at least so many and at most. Those that
-- another turn has are left to it. Parameters: shelves, untils, leasts, mosts.
{dead_leases}
UNION ALL
{fronts_of_shelves};

-- name: fronts_if_any
-- The same, if this transaction has locked anything before: whoever locks a row is given an id. A claim
-- that found nothing reads nothing more. Not for leases. Parameters: as above.
{fronts_of_shelves}
    AND pg_current_xact_id_if_assigned() IS NOT NULL;

-- name: candidates
-- The first records in claim order, where no queue is named and some are paused: of all lanes (queue,
-- type, priority) with pending records, a step in the index each. Only lanes whose own first is among
-- the first can matter. Parameters: tenant, types (NULL: all), paused, due_by, count.
{lanes}, wanted AS (
    SELECT queue, type, priority FROM lane
    WHERE due_at <= %(due_by)s AND queue <> ALL (%(paused)s::text[])
        AND (%(types)s::text[] IS NULL OR type = ANY (%(types)s::text[]))
    ORDER BY priority, due_at LIMIT %(count)s
), {first_of_lanes};

-- name: candidates_of_queues
-- The same of some queues; nothing is read of others. Parameters: tenant, queues, types (NULL: all),
-- due_by, count.
{lanes_of_queues}, wanted AS (
    SELECT queue, type, priority FROM lane WHERE due_at <= %(due_by)s
    ORDER BY priority, due_at LIMIT %(count)s
), {first_of_lanes};

-- name: candidates_of_types
-- The same where only types are named and no queue is paused, so that it does not matter how many there
-- are. Parameters: tenant, types, due_by, count.
{lanes_of_types}, wanted AS (
    SELECT type, priority FROM lane WHERE due_at <= %(due_by)s
    ORDER BY priority, due_at LIMIT %(count)s
), {first_of_types};

-- name: candidates_of_all
-- The same where nothing is named and nothing paused, so that no lanes matter: one priority after the
-- other until there are enough, past those that another turn has. Parameters: tenant, due_by, count.
{priorities}
SELECT
    job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body,
    job.priority, job.due_at
FROM step CROSS JOIN LATERAL (
    SELECT * FROM {schema}.jobs AS job
    WHERE job.tenant = %(tenant)s AND job.priority = step.priority
        AND job.due_at > '-infinity' AND job.due_at <= %(due_by)s
    ORDER BY due_at, life LIMIT %(count)s
    {lock}
) AS job
LIMIT %(count)s;

-- name: more_candidates
-- As `candidates`, where others have so many of the first that there were too few. Parameters: its
-- own, and pool.
{lanes}, wanted AS (
    SELECT queue, type, priority FROM lane
    WHERE due_at <= %(due_by)s AND queue <> ALL (%(paused)s::text[])
        AND (%(types)s::text[] IS NULL OR type = ANY (%(types)s::text[]))
    ORDER BY priority, due_at LIMIT %(pool)s
), {more_of_lanes};

-- name: more_candidates_of_queues
-- Parameters: those of `candidates_of_queues`, and pool.
{lanes_of_queues}, wanted AS (
    SELECT queue, type, priority FROM lane WHERE due_at <= %(due_by)s
    ORDER BY priority, due_at LIMIT %(pool)s
), {more_of_lanes};

-- name: more_candidates_of_types
-- Parameters: those of `candidates_of_types`, and pool.
{lanes_of_types}, wanted AS (
    SELECT type, priority FROM lane WHERE due_at <= %(due_by)s
    ORDER BY priority, due_at LIMIT %(pool)s
), {more_of_types};

-- name: candidates_from
-- The first records of some lanes, each from a place on; nothing is read before that. Parameters:
-- tenant, due_by, count, pool; lists of lane_queues, lane_types, lane_priorities, from_times, from_lives.
{first_of_places};

-- name: departed
-- What is remembered of jobs that left. Parameters: lists of tenants and ids.
SELECT tenant, id, until, operations
FROM unnest(%(tenants)b::text[], %(ids)b::text[]) AS wanted (tenant, id)
JOIN {schema}.remembered USING (tenant, id);

-- name: number
-- The number of this turn's commit: taken after everything was found. A turn that locks waits for
-- others from here on for a moment only.
SELECT nextval('{schema}.numbers'), {entries_read}{hurry};

-- name: number_if_any
-- The same, if this transaction has locked anything.
SELECT nextval('{schema}.numbers'), {entries_read}{hurry}
WHERE pg_current_xact_id_if_assigned() IS NOT NULL;

-- name: holds
-- Who holds these keys, each with the record of the holder. Parameters: tenants, queues, types, keys.
SELECT
    hold.tenant, hold.queue, hold.type, hold.key, hold.id, hold.life, hold.until, hold.lapses_at,
    job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body
FROM unnest(
    %(tenants)b::text[], %(queues)b::text[], %(types)b::text[], %(keys)b::bytea[]
) AS wanted (tenant, queue, type, key)
JOIN {schema}.holds AS hold ON hold.tenant = wanted.tenant AND hold.queue = wanted.queue
    AND hold.type = wanted.type AND hold.key = wanted.key
LEFT JOIN {schema}.jobs AS job
    ON job.tenant = hold.tenant AND job.id = hold.id AND job.life = hold.life;
