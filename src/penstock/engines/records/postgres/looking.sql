-- name: lanes
-- Each lane that has pending records, and when its first is due. Parameters: tenant.
{lanes}
SELECT queue, type, priority, due_at FROM lane;

-- name: waiting
-- Of each queue with pending records: when the earliest is due, and how many are not yet.
-- Parameters: tenant, at.
{lanes}
SELECT lane.queue, min(lane.due_at), sum(later.jobs)::bigint
FROM lane CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM {schema}.jobs AS job
    WHERE job.tenant = %(tenant)s AND job.queue = lane.queue AND job.type = lane.type
        AND job.priority = lane.priority AND job.due_at > %(at)s
) AS later
GROUP BY lane.queue ORDER BY lane.queue;

-- name: counts
-- How many jobs one tenant has and had. Parameters: tenant.
SELECT queue, state, sum(now)::bigint, sum(gone)::bigint FROM {schema}.counts
WHERE tenant = %(tenant)s GROUP BY queue, state ORDER BY queue, state;

-- name: lease_end
-- When the first lease runs out.
SELECT kept_at FROM {schema}.jobs WHERE shelf = 'running' AND kept_at IS NOT NULL
ORDER BY kept_at LIMIT 1;

-- name: listing
-- The bodies of one tenant's records on these shelves, by life; NULL matches all. Parameters: tenant,
-- shelves, queue, type.
SELECT body FROM {schema}.jobs
WHERE tenant = %(tenant)s AND shelf = ANY (%(shelves)s::text[])
    AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
    AND (%(type)s::text IS NULL OR type = %(type)s::text)
ORDER BY life;

-- name: departure
-- Where the history of a job that left is. Parameters: tenant, id.
SELECT life, trail FROM {schema}.departures WHERE tenant = %(tenant)s AND id = %(id)s;

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
