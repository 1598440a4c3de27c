-- name: head
-- Where the queue is.
SELECT commit_number, at, clock, completed, charter, charter_version FROM penstock_head;

-- name: by_id
-- The records of one tenant with these ids. Parameters: tenant, ids (JSON).
SELECT life, version, shelf, tenant, queue, type, key, body
FROM (SELECT value FROM json_each(:ids)) AS wanted
CROSS JOIN penstock_jobs ON tenant = :tenant AND id = wanted.value;

-- name: by_claim
-- The running records of one tenant that these claims have. Parameters: tenant, claims (JSON).
SELECT life, version, shelf, tenant, queue, type, key, body
FROM (SELECT value FROM json_each(:claims)) AS wanted
CROSS JOIN penstock_jobs INDEXED BY penstock_claimed ON claim = wanted.value
WHERE tenant = :tenant;

-- name: by_life
-- The records of these lives. Parameters: lives (JSON).
SELECT life, version, shelf, tenant, queue, type, key, body
FROM (SELECT value FROM json_each(:lives)) AS wanted
CROSS JOIN penstock_jobs ON life = wanted.value;

-- name: front
-- The first records of a shelf, up to a time. Parameters: shelf, until, most.
SELECT life, version, shelf, tenant, queue, type, key, body
FROM penstock_jobs INDEXED BY penstock_kept
WHERE shelf = :shelf AND kept_at <= :until
ORDER BY kept_at, life LIMIT :most;

-- name: next_type
-- The first type after another that has pending records. Parameters: tenant, type.
SELECT type FROM penstock_jobs INDEXED BY penstock_ready
WHERE tenant = :tenant AND type > :type AND due_at IS NOT NULL
ORDER BY type LIMIT 1;

-- name: next_lane_of_type
-- Of one type in all queues: the first priority after another, and when the first record of it is
-- due. Parameters: tenant, type, priority.
SELECT priority, due_at FROM penstock_jobs INDEXED BY penstock_ready
WHERE tenant = :tenant AND type = :type AND priority > :priority AND due_at IS NOT NULL
ORDER BY priority, due_at LIMIT 1;

-- name: candidates_of_type
-- The first records of one type and priority in all queues that are due. Parameters: tenant, type,
-- priority, due_by, count.
SELECT due_at, life FROM penstock_jobs INDEXED BY penstock_ready
WHERE tenant = :tenant AND type = :type AND priority = :priority AND due_at <= :due_by
ORDER BY due_at, life LIMIT :count;

-- name: next_type_of_queue
-- The first type after another that has pending records in a queue. Parameters: tenant, queue, type.
SELECT type FROM penstock_jobs INDEXED BY penstock_pending
WHERE tenant = :tenant AND queue = :queue AND type > :type AND due_at IS NOT NULL
ORDER BY type LIMIT 1;

-- name: next_lane
-- Of one queue and type: the first priority after another, and when the first record of it is due.
-- Parameters: tenant, queue, type, priority.
SELECT priority, due_at FROM penstock_jobs INDEXED BY penstock_pending
WHERE tenant = :tenant AND queue = :queue AND type = :type AND priority > :priority
    AND due_at IS NOT NULL
ORDER BY priority, due_at LIMIT 1;

-- name: each_lane
-- A part of others: each (queue, type, priority) that has pending records, and when its first is due:
-- a step or three in the index per lane, whatever is in it. Parameters: tenant.
WITH RECURSIVE lane (life, queue, type, priority, due_at) AS (
    SELECT * FROM (
        SELECT life, queue, type, priority, due_at
        FROM penstock_jobs INDEXED BY penstock_pending
        WHERE tenant = :tenant AND due_at IS NOT NULL
        ORDER BY queue, type, priority, due_at LIMIT 1
    )
    UNION ALL
    SELECT next.life, next.queue, next.type, next.priority, next.due_at
    FROM lane JOIN penstock_jobs AS next ON next.life = coalesce(
        -- SQLite seeks by the first column of a compared row only, so each has its own seek.
        (
            SELECT life FROM penstock_jobs INDEXED BY penstock_pending
            WHERE tenant = :tenant AND due_at IS NOT NULL
                AND queue = lane.queue AND type = lane.type AND priority > lane.priority
            ORDER BY priority, due_at LIMIT 1
        ), (
            SELECT life FROM penstock_jobs INDEXED BY penstock_pending
            WHERE tenant = :tenant AND due_at IS NOT NULL
                AND queue = lane.queue AND type > lane.type
            ORDER BY type, priority, due_at LIMIT 1
        ), (
            SELECT life FROM penstock_jobs INDEXED BY penstock_pending
            WHERE tenant = :tenant AND due_at IS NOT NULL AND queue > lane.queue
            ORDER BY queue, type, priority, due_at LIMIT 1
        )
    )
)

-- name: lanes
-- All of them, for claims that name no queue while some are paused. Parameters: tenant.
{each_lane}
SELECT queue, type, priority, due_at FROM lane;

-- name: candidates
-- The first records of one lane that are due. Parameters: tenant, queue, type, priority, due_by,
-- count.
SELECT due_at, life FROM penstock_jobs INDEXED BY penstock_pending
WHERE tenant = :tenant AND queue = :queue AND type = :type AND priority = :priority
    AND due_at <= :due_by
ORDER BY due_at, life LIMIT :count;

-- name: waiting
-- Of each type with pending records, by queue: how many, when the earliest is due, and how many are
-- not yet: from counters, and a few steps in the index per lane. What is not due yet is counted by
-- minutes, but for the minute that goes on. Parameters: tenant, at, minute (the one that goes on),
-- next_minute_at.
{each_lane}, type_ (queue, type, oldest_at, soon) AS (
    SELECT queue, type, min(due_at), sum((
        SELECT count(*) FROM penstock_jobs AS job INDEXED BY penstock_pending
        WHERE job.tenant = :tenant AND job.queue = lane.queue AND job.type = lane.type
            AND job.priority = lane.priority AND job.due_at > :at AND job.due_at < :next_minute_at
    ))
    FROM lane GROUP BY queue, type
)
SELECT
    queue, type,
    (
        SELECT now - gone FROM penstock_counts AS count
        WHERE count.tenant = :tenant AND count.queue = type_.queue AND count.type = type_.type
            AND count.state = 'pending'
    ),
    oldest_at,
    soon + (
        SELECT coalesce(sum(records), 0) FROM penstock_due AS due
        WHERE due.tenant = :tenant AND due.queue = type_.queue AND due.type = type_.type
            AND due.minute > :minute
    )
FROM type_ ORDER BY queue, type;

-- name: hold
-- Who holds a key. Not many at once as JSON, which can't carry every character that a key may have.
-- Parameters: tenant, queue, type, key.
SELECT id, life, until, lapses_at FROM penstock_holds
WHERE tenant = :tenant AND queue = :queue AND type = :type AND key = :key;

-- name: lease_end
-- When the first lease runs out.
SELECT min(kept_at) FROM penstock_jobs INDEXED BY penstock_kept
WHERE shelf = 'running' AND kept_at IS NOT NULL;

-- name: listed_columns
-- Of a record: its life, and its body if it is of a queue and type; NULL matches all.
life,
CASE
    WHEN (:queue IS NULL OR queue = :queue) AND (:type IS NULL OR type = :type) THEN body
END

-- name: listing
-- The first of one tenant's records on a shelf, behind a life and up to another. Parameters: tenant,
-- shelf, queue, type, after, until, most.
SELECT {listed_columns}
FROM penstock_jobs INDEXED BY penstock_listed
WHERE tenant = :tenant AND shelf = :shelf AND shelf <> 'running'
    AND life > :after AND life <= :until
ORDER BY life LIMIT :most;

-- name: listing_of_running
-- The same of those that run. Parameters: tenant, queue, type, after, until, most.
SELECT {listed_columns}
FROM penstock_jobs INDEXED BY penstock_kept
WHERE shelf = 'running' AND kept_at IS NOT NULL AND tenant = :tenant
    AND life > :after AND life <= :until
ORDER BY life LIMIT :most;

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
