-- name: head
-- Where the queue is.
SELECT commit_number, at, clock, completed, charter, charter_version FROM penstock_head;

-- name: record
-- A part of others: what is read of a record.
job.life, job.version, job.place, job.key, job.body

-- name: by_id
-- The records of one tenant with these ids. Parameters: tenant, ids (JSON).
SELECT {record}
FROM (SELECT value FROM json_each(:ids)) AS wanted
CROSS JOIN penstock_jobs AS job ON job.tenant = :tenant AND job.id = wanted.value;

-- name: by_claim
-- The running records of one tenant that these claims have. Parameters: tenant, claims (JSON).
SELECT {record}
FROM (SELECT value FROM json_each(:claims)) AS wanted
CROSS JOIN penstock_jobs AS job INDEXED BY penstock_claimed ON job.claim = wanted.value
WHERE job.tenant = :tenant;

-- name: by_life
-- The records of these lives. Parameters: lives (JSON).
SELECT {record}
FROM (SELECT value FROM json_each(:lives)) AS wanted
CROSS JOIN penstock_jobs AS job ON job.life = wanted.value;

-- name: front
-- The first records of a place, up to a time. Parameters: place, until, most.
SELECT {record}
FROM penstock_jobs AS job INDEXED BY penstock_placed
WHERE job.place = :place AND job.at <= :until
ORDER BY job.at, job.life LIMIT :most;

-- name: hold_of_key_of
-- The key of a record, and who holds it. Parameters: life.
SELECT hold.tenant, hold.queue, hold.type, hold.key, hold.id, hold.life, hold.until, hold.lapses_at
FROM penstock_jobs AS job JOIN penstock_holds AS hold
ON hold.tenant = job.tenant AND hold.queue = job.queue AND hold.type = job.type
    AND hold.key = job.key
WHERE job.life = :life;

-- name: hold
-- Who holds a key. Not many at once as JSON, which can't carry every character that a key may have.
-- Parameters: tenant, queue, type, key.
SELECT tenant, queue, type, key, id, life, until, lapses_at FROM penstock_holds
WHERE tenant = :tenant AND queue = :queue AND type = :type AND key = :key;

-- name: lease_end
-- When the first lease runs out. Parameters: place (of what runs).
SELECT min(at) FROM penstock_jobs INDEXED BY penstock_placed WHERE place = :place;

-- name: waiting
-- Of each type with pending records, by queue: how many, when the earliest is due, and how many are
-- not yet: from counters, and a few steps in the index per lane. What is not due yet is counted by
-- minutes, but for the minute that goes on. Parameters: tenant, at, minute (the one that goes on),
-- next_minute_at.
SELECT
    lane.queue, lane.type,
    (
        SELECT now - gone FROM penstock_counts AS count
        WHERE count.tenant = :tenant AND count.queue = lane.queue AND count.type = lane.type
            AND count.state = 'pending'
    ),
    min(lane.first_at),
    sum((
        SELECT count(*) FROM penstock_jobs AS job INDEXED BY penstock_placed
        WHERE job.place = lane.number AND job.at > :at AND job.at < :next_minute_at
    )) + (
        SELECT coalesce(sum(records), 0) FROM penstock_due AS due
        WHERE due.tenant = :tenant AND due.queue = lane.queue AND due.type = lane.type
            AND due.minute > :minute
    )
FROM penstock_lanes AS lane WHERE lane.tenant = :tenant
GROUP BY lane.queue, lane.type ORDER BY lane.queue, lane.type;

-- name: size
-- How large the file is.
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size();

-- name: counts
-- How many jobs one tenant has and had. Parameters: tenant.
SELECT queue, state, sum(now), sum(gone) FROM penstock_counts WHERE tenant = :tenant
GROUP BY queue, state;

-- name: departure
-- Where the history of a job that left is: of a life, or of the latest. Parameters: tenant, id, life.
SELECT life, trail FROM penstock_departures
WHERE tenant = :tenant AND id = :id AND (:life IS NULL OR life = :life)
ORDER BY life DESC LIMIT 1;

-- name: departed
-- What is remembered of jobs that left. Parameters: tenant, ids (JSON).
SELECT id, until, operations
FROM (SELECT value FROM json_each(:ids)) AS wanted
CROSS JOIN penstock_remembered ON tenant = :tenant AND id = wanted.value;

-- name: remembered
-- All that is remembered of one tenant's jobs, later than a time. Parameters: tenant, after.
SELECT id, until, operations FROM penstock_remembered
WHERE tenant = :tenant AND until > :after ORDER BY id;

-- name: commits
-- The first commits after a number. Parameters: after, count.
SELECT number, events FROM penstock_commits WHERE number > :after ORDER BY number LIMIT :count;

-- name: commit
-- The events of one commit. Parameters: number.
SELECT events FROM penstock_commits WHERE number = :number;

-- name: first_commit
-- The lowest number whose events were not vacuumed.
SELECT first_commit FROM penstock_head;

-- name: sides
-- Side objects that a job names, or once did.
SELECT key, released_at FROM penstock_sides;

-- name: tenants
-- All that ever had a job, a step in the index each.
WITH RECURSIVE each (tenant) AS (
    SELECT min(tenant) FROM penstock_counts
    UNION ALL
    SELECT (SELECT min(tenant) FROM penstock_counts WHERE tenant > each.tenant)
    FROM each WHERE each.tenant IS NOT NULL
)
SELECT tenant FROM each WHERE tenant IS NOT NULL;

-- name: lapsing
-- The keys of one tenant that time alone will free, after a time. Parameters: tenant, after.
SELECT queue, type, key, id, life, until, lapses_at
FROM penstock_holds
WHERE tenant = :tenant AND lapses_at > :after
ORDER BY queue, type, key;
