-- name: due
-- When the first pending record is due, where no queue is named and some are paused. Parameters:
-- tenant, types (NULL: all), paused.
{lanes}
SELECT min(due_at) FROM lane
WHERE queue <> ALL (%(paused)s::text[])
    AND (%(types)s::text[] IS NULL OR type = ANY (%(types)s::text[]));

-- name: due_of_queues
-- The same of some queues. Parameters: tenant, queues, types (NULL: all).
{lanes_of_queues}
SELECT min(due_at) FROM lane;

-- name: due_of_types
-- The same where only types are named and no queue is paused. Parameters: tenant, types.
{lanes_of_types}
SELECT min(due_at) FROM lane;

-- name: due_of_all
-- The same where nothing is named and nothing is paused. Parameters: tenant.
{priorities}
SELECT min(due_at) FROM step;

-- name: place
-- Whether one who waits is noted, and how many are ahead: those who wait for longer; and, as one, those
-- who were woken a moment ago, since what is due may be what they are about to claim. Parameters:
-- waiter, session, moment.
SELECT own.name IS NOT NULL, (
    SELECT count(*) FROM {schema}.waiters AS other
    WHERE other.since < coalesce(own.since, 'infinity') AND other.woken_at IS NULL
) + (
    SELECT count(*) FROM (
        SELECT FROM {schema}.waiters AS other
        WHERE other.name <> %(waiter)s
            AND other.woken_at > clock_timestamp() - make_interval(secs => %(moment)s)
        LIMIT 1
    ) AS woken
)
FROM (SELECT) AS one
LEFT JOIN {schema}.waiters AS own
    ON own.name = %(waiter)s AND own.session = %(session)s AND own.woken_at IS NULL;

-- name: waiting
-- Of each type with pending records, by queue: how many, when the earliest is due, and how many are
-- not yet: from counters, and a step or two in the index per lane. What is not due yet is counted by
-- minutes, but for the minute that goes on. Parameters: tenant, at, minute (the one that goes on),
-- next_minute_at.
{lanes}, first (queue, type, oldest_at, soon) AS (
    SELECT lane.queue, lane.type, min(lane.due_at), sum(soon.records)
    FROM lane CROSS JOIN LATERAL (
        SELECT count(*) AS records FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s AND job.queue = lane.queue AND job.type = lane.type
            AND job.priority = lane.priority
            AND job.due_at > %(at)s AND job.due_at < %(next_minute_at)s
    ) AS soon
    GROUP BY lane.queue, lane.type
)
SELECT
    first.queue, first.type,
    coalesce((
        SELECT sum(now - gone) FROM {schema}.counts AS count
        WHERE count.tenant = %(tenant)s AND count.queue = first.queue
            AND count.type = first.type AND count.state = 'pending'
    ), 0)::bigint,
    first.oldest_at,
    (first.soon + coalesce((
        SELECT sum(records) FROM {schema}.due AS due
        WHERE due.tenant = %(tenant)s AND due.queue = first.queue AND due.type = first.type
            AND due.minute > %(minute)s
    ), 0))::bigint
FROM first ORDER BY first.queue, first.type;

-- name: size
-- How much room all tables take, with their indexes.
SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = '{schema}' AND relkind = 'r';

-- name: counts
-- How many jobs one tenant has and had. Parameters: tenant.
SELECT queue, state, sum(now)::bigint, sum(gone)::bigint FROM {schema}.counts
WHERE tenant = %(tenant)s GROUP BY queue, state ORDER BY queue, state;

-- name: lease_end
-- When the first lease runs out.
SELECT kept_at FROM {schema}.jobs WHERE shelf = 'running' ORDER BY kept_at, life LIMIT 1;

-- name: listing
-- The first of one tenant's records on each of these shelves, behind a life and up to another: their
-- lives, and the bodies of those of a queue and type; NULL matches all. Each kind of shelf has an index
-- of its own; those that run are looked for by their leases. Parameters: tenant, shelves, queue, type,
-- after, until, most.
SELECT wanted.shelf, job.life, job.body
FROM unnest(%(shelves)s::text[]) AS wanted (shelf) CROSS JOIN LATERAL (
    SELECT life, {listed_body} FROM {schema}.jobs
    WHERE tenant = %(tenant)s AND jobs.shelf = wanted.shelf
        AND jobs.shelf <> 'pending' AND jobs.shelf <> 'running' AND {listed_lives}
) AS job
UNION ALL
SELECT 'pending', job.life, job.body FROM (
    SELECT life, {listed_body} FROM {schema}.jobs
    WHERE 'pending' = ANY (%(shelves)s::text[]) AND jobs.shelf = 'pending'
        AND tenant = %(tenant)s AND {listed_lives}
) AS job
UNION ALL
SELECT 'running', job.life, job.body FROM (
    SELECT life, {listed_body} FROM {schema}.jobs
    WHERE 'running' = ANY (%(shelves)s::text[]) AND jobs.shelf = 'running'
        AND (tenant = %(tenant)s) IS TRUE AND {listed_lives}
) AS job
ORDER BY 1, 2;

-- name: listed_body
-- Of what is listed: the bodies of those of a queue and type; NULL matches all.
CASE
    WHEN (%(queue)s::text IS NULL OR queue = %(queue)s::text)
        AND (%(type)s::text IS NULL OR type = %(type)s::text) THEN body
END AS body

-- name: listed_lives
life > %(after)s AND life <= %(until)s ORDER BY life LIMIT %(most)s

-- name: departure
-- Where the history of a job that left is: of a life, or of the latest (NULL). Parameters: tenant,
-- id, life.
SELECT life, trail FROM {schema}.departures
WHERE tenant = %(tenant)s AND id = %(id)s
    AND (%(life)s::bigint IS NULL OR life = %(life)s::bigint)
ORDER BY life DESC LIMIT 1;

-- name: remembered
-- What is remembered of one tenant's jobs that left, later than a time. Parameters: tenant, after.
SELECT tenant, id, until, operations FROM {schema}.remembered
WHERE tenant = %(tenant)s AND until > %(after)s ORDER BY id;

-- name: commits
-- The first commits after a number, and not above what is readable. Parameters: after, readable, count.
SELECT number, events FROM {schema}.commits
WHERE number > %(after)s AND number <= %(readable)s ORDER BY number LIMIT %(count)s;

-- name: commit
-- The events of one commit. Parameters: number.
SELECT events FROM {schema}.commits WHERE number = %(number)s;

-- name: settle
-- Waits until no turn is under way, so that what became of any is certain.
SELECT pg_advisory_xact_lock('{schema}.head'::regclass::oid::integer, 0);

-- name: first_commit
-- The lowest number whose events were not vacuumed.
SELECT first_commit FROM {schema}.head;

-- name: sides
-- Side objects that a job names, or once did.
SELECT key, released_at FROM {schema}.sides;

-- name: tenants
-- All that ever had a job, a step in the index each.
WITH RECURSIVE each (tenant) AS (
    (SELECT tenant FROM {schema}.counts ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT next.tenant FROM each CROSS JOIN LATERAL (
        SELECT tenant FROM {schema}.counts
        WHERE counts.tenant > each.tenant ORDER BY tenant LIMIT 1
    ) AS next
)
SELECT tenant FROM each;

-- name: lapsing
-- The keys of one tenant that time alone will free, after a time. Parameters: tenant, after.
SELECT tenant, queue, type, key, id, life, until, lapses_at FROM {schema}.holds
WHERE tenant = %(tenant)s AND lapses_at > %(after)s ORDER BY queue, type, key;
