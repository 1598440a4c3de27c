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
-- Adds differences to one shard. Parameters: shard; lists of tenants, queues, states, now, gone.
INSERT INTO {schema}.counts AS count (tenant, queue, state, shard, now, gone)
SELECT tenant, queue, state, %(shard)s, now, gone
FROM unnest(
    %(tenants)b::text[], %(queues)b::text[], %(states)b::text[], %(now)b::bigint[],
    %(gone)b::bigint[]
) AS new (tenant, queue, state, now, gone)
ON CONFLICT (tenant, queue, state, shard)
DO UPDATE SET now = count.now + excluded.now, gone = count.gone + excluded.gone;

-- name: count_completed
-- Adds to one shard. Parameters: shard, records.
INSERT INTO {schema}.completed AS count (shard, records) VALUES (%(shard)s, %(records)s)
ON CONFLICT (shard) DO UPDATE SET records = count.records + excluded.records;

-- name: depart
-- A trail is a list, and a list of lists has to be square, so they go as text. Parameters: lists of
-- tenants, ids, lives, last (the commits of their ends), trails.
INSERT INTO {schema}.departures (tenant, id, life, last_commit, trail)
SELECT tenant, id, life, last_commit, trail::bigint[]
FROM unnest(
    %(tenants)b::text[], %(ids)b::text[], %(lives)b::bigint[], %(last)b::bigint[],
    %(trails)b::text[]
) AS new (tenant, id, life, last_commit, trail)
ON CONFLICT (tenant, id) DO UPDATE
SET life = excluded.life, last_commit = excluded.last_commit, trail = excluded.trail;

-- name: name_sides
-- Parameters: lists of keys and released (times, NULL while a job names it).
INSERT INTO {schema}.sides (key, released_at)
SELECT * FROM unnest(%(keys)b::text[], %(released)b::float8[])
ON CONFLICT (key) DO UPDATE SET released_at = excluded.released_at;

-- name: add_commit
-- Parameters: number, at, events.
INSERT INTO {schema}.commits (number, at, events)
VALUES (%(number)s, %(at)s, %(events)b);

-- name: set_charter
-- Parameters: charter, number.
UPDATE {schema}.head SET charter = %(charter)b, charter_version = %(number)s;

-- name: tell
-- Wakes those who wait. Parameters: channel, teller.
SELECT pg_notify(%(channel)s, %(teller)s);

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
    ),
    at = greatest(at, (SELECT at FROM {schema}.commits ORDER BY at DESC LIMIT 1))
FROM kept;

-- name: drop_commits
-- Those below the first, and how many they were.
WITH dropped AS (
    DELETE FROM {schema}.commits WHERE number < (SELECT first_commit FROM {schema}.head)
    RETURNING 1
)
SELECT count(*) FROM dropped;

-- name: forget_departures
-- Those whose events are all gone.
DELETE FROM {schema}.departures
WHERE last_commit < (SELECT first_commit FROM {schema}.head);

-- name: forget_sides
-- Parameters: released_before.
DELETE FROM {schema}.sides WHERE released_at < %(released_before)s;
