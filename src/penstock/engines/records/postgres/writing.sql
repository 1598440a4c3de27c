-- name: remove
-- Parameters: tenants, ids, founds (versions), count.
WITH removed AS (
    DELETE FROM {schema}.jobs AS job
    USING unnest(
        %(tenants)b::text[], %(ids)b::text[], %(founds)b::bigint[]
    ) AS old (tenant, id, found)
    WHERE job.tenant = old.tenant AND job.id = old.id AND job.version = old.found
    RETURNING 1
)
SELECT {schema}.expect(count(*), %(count)s) FROM removed;

-- name: insert
-- Lives begin; refused if an id is taken. Parameters: version, and a list for each other column.
INSERT INTO {schema}.jobs
    (tenant, id, life, version, queue, type, key, priority, shelf, due_at, kept_at, claim, body)
SELECT
    tenant, id, life, %(version)s, queue, type, key, priority, shelf, due_at, kept_at, claim, body
FROM unnest(
    %(tenants)b::text[], %(ids)b::text[], %(lives)b::bigint[], %(queues)b::text[],
    %(types)b::text[], %(keys)b::bytea[], %(priorities)b::bigint[], %(shelves)b::text[],
    %(due)b::float8[], %(kept)b::float8[], %(claims)b::text[], %(bodies)b::bytea[]
) AS new
    (tenant, id, life, queue, type, key, priority, shelf, due_at, kept_at, claim, body);

-- name: update
-- Lives go on. Parameters: version and count; lists of tenants, ids, founds (the versions that are
-- replaced), shelves, due, kept, claims, bodies.
WITH updated AS (
    UPDATE {schema}.jobs AS job
    SET version = %(version)s, shelf = new.shelf, due_at = new.due_at, kept_at = new.kept_at,
        claim = new.claim, body = new.body
    FROM unnest(
        %(tenants)b::text[], %(ids)b::text[], %(founds)b::bigint[], %(shelves)b::text[],
        %(due)b::float8[], %(kept)b::float8[], %(claims)b::text[], %(bodies)b::bytea[]
    ) AS new (tenant, id, found, shelf, due_at, kept_at, claim, body)
    WHERE job.tenant = new.tenant AND job.id = new.id AND job.version = new.found
    RETURNING 1
)
SELECT {schema}.expect(count(*), %(count)s) FROM updated;

-- name: free_keys
-- Parameters: tenants, queues, types, keys, lives, count.
WITH freed AS (
    DELETE FROM {schema}.holds AS hold
    USING unnest(
        %(tenants)b::text[], %(queues)b::text[], %(types)b::text[], %(keys)b::bytea[],
        %(lives)b::bigint[]
    ) AS old (tenant, queue, type, key, life)
    WHERE hold.tenant = old.tenant AND hold.queue = old.queue AND hold.type = old.type
        AND hold.key = old.key AND hold.life = old.life
    RETURNING 1
)
SELECT {schema}.expect(count(*), %(count)s) FROM freed;

-- name: take_keys
-- Refused if one is taken. Parameters: tenants, queues, types, keys, ids, lives, untils, lapses.
INSERT INTO {schema}.holds (tenant, queue, type, key, id, life, until, lapses_at)
SELECT * FROM unnest(
    %(tenants)b::text[], %(queues)b::text[], %(types)b::text[], %(keys)b::bytea[],
    %(ids)b::text[], %(lives)b::bigint[], %(untils)b::float8[], %(lapses)b::float8[]
);

-- name: free_lapsed_keys
-- Some of them, and none that another is freeing. Parameters: lapsed_at.
DELETE FROM {schema}.holds WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.holds WHERE lapses_at <= %(lapsed_at)s
    ORDER BY lapses_at LIMIT 1000 FOR UPDATE SKIP LOCKED
));

-- name: count
-- Adds differences to one shard. Parameters: shard; lists of tenants, queues, types, states, now,
-- gone.
INSERT INTO {schema}.counts AS count (tenant, queue, type, state, shard, now, gone)
SELECT tenant, queue, type, state, %(shard)s, now, gone
FROM unnest(
    %(tenants)b::text[], %(queues)b::text[], %(types)b::text[], %(states)b::text[],
    %(now)b::bigint[], %(gone)b::bigint[]
) AS new (tenant, queue, type, state, now, gone)
ON CONFLICT (tenant, queue, type, state, shard)
DO UPDATE SET now = count.now + excluded.now, gone = count.gone + excluded.gone;

-- name: count_due
-- Adds differences to one shard. Parameters: shard; lists of tenants, queues, types, minutes, records.
INSERT INTO {schema}.due AS due (tenant, queue, type, minute, shard, records)
SELECT tenant, queue, type, minute, %(shard)s, records
FROM unnest(
    %(tenants)b::text[], %(queues)b::text[], %(types)b::text[], %(minutes)b::bigint[],
    %(records)b::bigint[]
) AS new (tenant, queue, type, minute, records)
ON CONFLICT (tenant, queue, type, minute, shard)
DO UPDATE SET records = due.records + excluded.records;

-- name: forget_minutes
-- Some of those that have begun, and none that another is forgetting. Parameters: minute.
DELETE FROM {schema}.due WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.due WHERE minute <= %(minute)s
    ORDER BY minute LIMIT 1000 FOR UPDATE SKIP LOCKED
));

-- name: compare_remembered
-- Refuses the turn if something else is remembered of an id than was found. After its new lives were
-- inserted: from then on nobody else can begin one, so that nothing comes and goes unseen.
-- Parameters: lists of tenants, ids, untils and operations (NULL: nothing was), count.
SELECT {schema}.expect(count(*), %(count)s)
FROM unnest(
    %(tenants)b::text[], %(ids)b::text[], %(untils)b::float8[], %(operations)b::bytea[]
) AS found (tenant, id, until, operations)
LEFT JOIN {schema}.remembered AS now ON now.tenant = found.tenant AND now.id = found.id
WHERE (now.until, now.operations) IS NOT DISTINCT FROM (found.until, found.operations);

-- name: depart
-- A trail is a list, and a list of lists has to be square, so they go as text. Parameters: lists of
-- tenants, ids, lives, last (the commits of their ends), trails.
INSERT INTO {schema}.departures (tenant, id, life, last_commit, trail)
SELECT tenant, id, life, last_commit, trail::bigint[]
FROM unnest(
    %(tenants)b::text[], %(ids)b::text[], %(lives)b::bigint[], %(last)b::bigint[],
    %(trails)b::text[]
) AS new (tenant, id, life, last_commit, trail)
ON CONFLICT (tenant, id, life) DO UPDATE
SET last_commit = excluded.last_commit, trail = excluded.trail;

-- name: remember
-- Parameters: lists of tenants, ids, untils, operations.
INSERT INTO {schema}.remembered (tenant, id, until, operations)
SELECT * FROM unnest(
    %(tenants)b::text[], %(ids)b::text[], %(untils)b::float8[], %(operations)b::bytea[]
)
ON CONFLICT (tenant, id) DO UPDATE
SET until = excluded.until, operations = excluded.operations;

-- name: forget_calls
-- Some of them, and none that another is forgetting. Parameters: lapsed_at.
DELETE FROM {schema}.remembered WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.remembered WHERE until <= %(lapsed_at)s
    ORDER BY until LIMIT 2000 FOR UPDATE SKIP LOCKED
));

-- name: name_sides
-- Parameters: lists of keys and released (times, NULL while a job names it).
INSERT INTO {schema}.sides (key, released_at)
SELECT * FROM unnest(%(keys)b::text[], %(released)b::float8[])
ON CONFLICT (key) DO UPDATE SET released_at = excluded.released_at;

-- name: add_commit
-- And what else its shard has to add. Parameters: number, at, clock, events, shard, completed.
WITH noted AS (
    INSERT INTO {schema}.shards AS one (shard, completed, at, clock)
    VALUES (%(shard)s, %(completed)s, %(at)s, %(clock)s)
    ON CONFLICT (shard) DO UPDATE SET
        completed = one.completed + excluded.completed,
        clock = CASE WHEN excluded.at >= one.at THEN excluded.clock ELSE one.clock END,
        at = greatest(one.at, excluded.at)
)
INSERT INTO {schema}.commits (number, at, events) VALUES (%(number)s, %(at)s, %(events)b);

-- name: set_charter
-- Parameters: charter, number.
UPDATE {schema}.head SET charter = %(charter)b, charter_version = %(number)s;

-- name: tell
-- Announces a commit. Parameters: channel, teller.
SELECT pg_notify(%(channel)s, %(teller)s);

-- name: wake
-- Tells those who wait that work has come, each once; not those whom another is telling just now.
-- Parameters: lists of tenants, queues, types, jobs (-1: all who wait for it).
WITH chosen AS (
    SELECT one.name, wake.* FROM unnest(
        %(tenants)b::text[], %(queues)b::text[], %(types)b::text[], %(jobs)b::bigint[]
    ) AS wake (tenant, queue, type, jobs)
    CROSS JOIN LATERAL ({waiters_for_wake} FOR UPDATE SKIP LOCKED) AS one
), woken AS (
    UPDATE {schema}.waiters AS waiter SET woken_at = clock_timestamp()
    FROM chosen WHERE waiter.name = chosen.name
    RETURNING chosen.*
)
SELECT {notify_waiter} FROM woken;

-- name: wake_within
-- The same in a transaction that may last: nobody is taken off the list, which others need meanwhile.
WITH chosen AS (
    SELECT one.name, wake.* FROM unnest(
        %(tenants)b::text[], %(queues)b::text[], %(types)b::text[], %(jobs)b::bigint[]
    ) AS wake (tenant, queue, type, jobs)
    CROSS JOIN LATERAL ({waiters_for_wake}) AS one
)
SELECT {notify_waiter} FROM chosen;

-- name: note_waiter
-- Writes down who waits, if that was not done, and forgets those for whom nobody hears any more, or who
-- were woken long ago.
-- Parameters: waiter, tenant, queues and types (NULL: all), session.
WITH gone AS (
    DELETE FROM {schema}.waiters WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.waiters
        WHERE name <> %(waiter)s AND (
            NOT EXISTS (SELECT FROM pg_stat_get_activity(waiters.session))
            OR woken_at < clock_timestamp() - interval '1 minute'
        )
        FOR UPDATE SKIP LOCKED
    ))
)
INSERT INTO {schema}.waiters (name, tenant, queues, types, session, since)
VALUES (
    %(waiter)s, %(tenant)s, %(queues)s::text[], %(types)s::text[], %(session)s, clock_timestamp()
)
ON CONFLICT (name) DO UPDATE SET
    session = excluded.session,
    since = CASE WHEN waiters.woken_at IS NULL THEN waiters.since ELSE excluded.since END,
    woken_at = NULL
WHERE waiters.session <> excluded.session OR waiters.woken_at IS NOT NULL;

-- name: raise_first_commit
-- Up to the first commit that is young, or that must stay, if there are any before it; and notes
-- where the queue is, for when there are no commits left to say it. Parameters: written_before,
-- below.
WITH kept AS (
    SELECT least(
        %(below)s::bigint,
        (SELECT number FROM {schema}.commits WHERE at >= %(written_before)s
            ORDER BY number LIMIT 1)
    ) AS first
)
UPDATE {schema}.head SET
    first_commit = CASE
        WHEN EXISTS (SELECT FROM {schema}.commits WHERE number < kept.first)
        THEN greatest(first_commit, kept.first) ELSE first_commit
    END,
    commit_number = greatest(
        commit_number, (SELECT number FROM {schema}.commits ORDER BY number DESC LIMIT 1)
    )
FROM kept;

-- name: drop_commits
-- Some of those below the first, and how many they were. Parameters: count.
WITH dropped AS (
    DELETE FROM {schema}.commits WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.commits
        WHERE number < (SELECT first_commit FROM {schema}.head) ORDER BY number LIMIT %(count)s
    ))
    RETURNING 1
)
SELECT count(*) FROM dropped;

-- name: forget_departures
-- Some of those whose events are all gone, and how many they were. Parameters: count.
WITH forgotten AS (
    DELETE FROM {schema}.departures WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.departures
        WHERE last_commit < (SELECT first_commit FROM {schema}.head)
        ORDER BY last_commit LIMIT %(count)s
    ))
    RETURNING 1
)
SELECT count(*) FROM forgotten;

-- name: forget_sides
-- Parameters: released_before.
DELETE FROM {schema}.sides WHERE released_at < %(released_before)s;
