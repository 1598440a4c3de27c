-- name: lanes
-- Each lane (queue, type, priority) that has pending records, and when its first is due: a step in
-- the index per lane, whatever is in it. Parameters: tenant.
WITH RECURSIVE lane (queue, type, priority, due_at) AS (
    (
        SELECT queue, type, priority, due_at FROM {schema}.jobs
        WHERE tenant = %(tenant)s AND due_at IS NOT NULL
        ORDER BY queue, type, priority, due_at, life LIMIT 1
    )
    UNION ALL
    SELECT next.queue, next.type, next.priority, next.due_at
    FROM lane CROSS JOIN LATERAL (
        SELECT queue, type, priority, due_at FROM {schema}.jobs
        WHERE tenant = %(tenant)s AND due_at IS NOT NULL
            AND (queue, type, priority) > (lane.queue, lane.type, lane.priority)
        ORDER BY queue, type, priority, due_at, life LIMIT 1
    ) AS next
)

-- name: lanes_of_queues
-- The same for some queues, and for some types of them or all. Each priority is a step. Parameters:
-- tenant, queues, types (NULL: all).
WITH RECURSIVE named (queue) AS (
    SELECT DISTINCT unnest(%(queues)s::text[]) COLLATE "C"
), every (queue, type) AS (
    SELECT named.queue, first.type FROM named CROSS JOIN LATERAL (
        SELECT type FROM {schema}.jobs AS job
        WHERE %(types)s::text[] IS NULL AND job.tenant = %(tenant)s AND job.queue = named.queue
            AND job.due_at IS NOT NULL
        ORDER BY type LIMIT 1
    ) AS first
    UNION ALL
    SELECT every.queue, next.type FROM every CROSS JOIN LATERAL (
        SELECT type FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s AND job.queue = every.queue AND job.type > every.type
            AND job.due_at IS NOT NULL
        ORDER BY type LIMIT 1
    ) AS next
), asked (queue, type) AS (
    SELECT queue, type FROM every
    UNION ALL
    SELECT queue, type FROM named
    CROSS JOIN (SELECT DISTINCT unnest(%(types)s::text[]) COLLATE "C" AS type) AS types
), lane (queue, type, priority, due_at) AS (
    SELECT asked.queue, asked.type, first.priority, first.due_at
    FROM asked CROSS JOIN LATERAL (
        SELECT priority, due_at FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s AND job.queue = asked.queue AND job.type = asked.type
            AND job.due_at IS NOT NULL
        ORDER BY priority, due_at, life LIMIT 1
    ) AS first
    UNION ALL
    SELECT lane.queue, lane.type, next.priority, next.due_at
    FROM lane CROSS JOIN LATERAL (
        SELECT priority, due_at FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s AND job.queue = lane.queue AND job.type = lane.type
            AND job.priority > lane.priority AND job.due_at IS NOT NULL
        ORDER BY priority, due_at, life LIMIT 1
    ) AS next
)

-- name: lanes_of_types
-- The same where the queue does not matter: lanes of a type and a priority in all queues.
-- Parameters: tenant, types.
WITH RECURSIVE asked (type) AS (
    SELECT DISTINCT unnest(%(types)s::text[]) COLLATE "C"
), lane (type, priority, due_at) AS (
    SELECT asked.type, first.priority, first.due_at
    FROM asked CROSS JOIN LATERAL (
        SELECT priority, due_at FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s AND job.type = asked.type AND job.due_at >= '-infinity'
        ORDER BY priority, due_at, life LIMIT 1
    ) AS first
    UNION ALL
    SELECT lane.type, next.priority, next.due_at
    FROM lane CROSS JOIN LATERAL (
        SELECT priority, due_at FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s AND job.type = lane.type
            AND job.priority > lane.priority AND job.due_at >= '-infinity'
        ORDER BY priority, due_at, life LIMIT 1
    ) AS next
)

-- name: first_of_lanes
-- The first records of the lanes that are `wanted`. First how many of each lane are among them;
-- then that many of each, past those that another turn has. A last row, without a life, says how
-- many were seen: if those of one lane are others', there may be more in another. Parameters: tenant,
-- due_by, count.
share AS (
    SELECT queue, type, priority, count(*) AS records FROM (
        SELECT wanted.queue, wanted.type, wanted.priority
        FROM wanted CROSS JOIN LATERAL (
            SELECT due_at, life FROM {schema}.jobs AS job
            WHERE job.tenant = %(tenant)s
                AND job.queue = wanted.queue AND job.type = wanted.type AND job.priority = wanted.priority
                AND job.due_at <= %(due_by)s
            ORDER BY due_at, life LIMIT %(count)s
        ) AS job
        ORDER BY wanted.priority, job.due_at, job.life LIMIT %(count)s
    ) AS first
    GROUP BY queue, type, priority
)
SELECT
    job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body,
    job.priority, job.due_at
FROM share CROSS JOIN LATERAL (
    SELECT * FROM {schema}.jobs AS job
    WHERE job.tenant = %(tenant)s
        AND job.queue = share.queue AND job.type = share.type AND job.priority = share.priority
        AND job.due_at <= %(due_by)s
    ORDER BY due_at, life LIMIT share.records
    {lock}
) AS job
UNION ALL
SELECT NULL, sum(records)::bigint, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM share

-- name: more_of_lanes
-- The same in one order over all lanes, past whatever others have, as far as `pool` records
-- reach. Parameters: tenant, due_by, count, pool.
pool AS MATERIALIZED (
    SELECT job.place, wanted.priority, job.due_at, job.life
    FROM wanted CROSS JOIN LATERAL (
        SELECT ctid AS place, due_at, life FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s
            AND job.queue = wanted.queue AND job.type = wanted.type AND job.priority = wanted.priority
            AND job.due_at <= %(due_by)s
        ORDER BY due_at, life LIMIT %(pool)s
    ) AS job
    ORDER BY wanted.priority, job.due_at, job.life LIMIT %(pool)s
)
{first_of_pool}

-- name: first_of_types
-- The first records of the lanes of a type and a priority that are `wanted`. First how many of each lane are among them;
-- then that many of each, past those that another turn has. A last row, without a life, says how
-- many were seen: if those of one lane are others', there may be more in another. Parameters: tenant,
-- due_by, count.
share AS (
    SELECT type, priority, count(*) AS records FROM (
        SELECT wanted.type, wanted.priority
        FROM wanted CROSS JOIN LATERAL (
            SELECT due_at, life FROM {schema}.jobs AS job
            WHERE job.tenant = %(tenant)s
                AND job.type = wanted.type AND job.priority = wanted.priority
                AND job.due_at >= '-infinity' AND job.due_at <= %(due_by)s
            ORDER BY due_at, life LIMIT %(count)s
        ) AS job
        ORDER BY wanted.priority, job.due_at, job.life LIMIT %(count)s
    ) AS first
    GROUP BY type, priority
)
SELECT
    job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body,
    job.priority, job.due_at
FROM share CROSS JOIN LATERAL (
    SELECT * FROM {schema}.jobs AS job
    WHERE job.tenant = %(tenant)s
        AND job.type = share.type AND job.priority = share.priority
        AND job.due_at >= '-infinity' AND job.due_at <= %(due_by)s
    ORDER BY due_at, life LIMIT share.records
    {lock}
) AS job
UNION ALL
SELECT NULL, sum(records)::bigint, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM share

-- name: more_of_types
-- The same in one order over all lanes of a type and a priority, past whatever others have, as far as `pool` records
-- reach. Parameters: tenant, due_by, count, pool.
pool AS MATERIALIZED (
    SELECT job.place, wanted.priority, job.due_at, job.life
    FROM wanted CROSS JOIN LATERAL (
        SELECT ctid AS place, due_at, life FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s
            AND job.type = wanted.type AND job.priority = wanted.priority
            AND job.due_at >= '-infinity' AND job.due_at <= %(due_by)s
        ORDER BY due_at, life LIMIT %(pool)s
    ) AS job
    ORDER BY wanted.priority, job.due_at, job.life LIMIT %(pool)s
)
{first_of_pool}

-- name: first_of_places
-- The first records of some lanes, each from a place on. Parameters: as `candidates_from`.
WITH pool AS MATERIALIZED (
    SELECT job.place, lane.priority, job.due_at, job.life
    FROM unnest(
        %(lane_queues)b::text[], %(lane_types)b::text[], %(lane_priorities)b::bigint[],
        %(from_times)b::float8[], %(from_lives)b::bigint[]
    ) AS lane (queue, type, priority, from_time, from_life)
    CROSS JOIN LATERAL (
        SELECT ctid AS place, due_at, life FROM {schema}.jobs AS job
        WHERE job.tenant = %(tenant)s AND job.queue = lane.queue AND job.type = lane.type
            AND job.priority = lane.priority AND job.due_at <= %(due_by)s
            AND (job.due_at, job.life) >= (lane.from_time, lane.from_life)
        ORDER BY due_at, life LIMIT %(pool)s
    ) AS job
    ORDER BY lane.priority, job.due_at, job.life LIMIT %(pool)s
)
{first_of_pool}

-- name: first_of_pool
-- Those of a pool of places that no other turn has. Parameters: count.
SELECT
    job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body,
    job.priority, job.due_at
FROM pool JOIN {schema}.jobs AS job ON job.ctid = pool.place
ORDER BY pool.priority, pool.due_at, pool.life LIMIT %(count)s
{lock_job}

-- name: waiters_for_wake
-- Those who wait for the work of a `wake`, the longest waiting first, if somebody hears for them.
SELECT waiter.name FROM {schema}.waiters AS waiter
WHERE waiter.tenant = wake.tenant AND waiter.woken_at IS NULL
    AND (waiter.queues IS NULL OR wake.queue = ANY (waiter.queues))
    AND (waiter.types IS NULL OR wake.type = ANY (waiter.types))
    AND EXISTS (SELECT FROM pg_stat_get_activity(waiter.session))
ORDER BY waiter.since LIMIT nullif(wake.jobs, -1)

-- name: notify_waiter
-- To the handle: its name for who waits, and the work, as JSON.
pg_notify(
    'penstock_' || split_part(name, '/', 1),
    json_build_array(split_part(name, '/', 2), tenant, queue, type, nullif(jobs, -1))::text
)

-- name: priorities
-- Each priority that something pending has, in order, whatever it is: a step in the index for each
-- that is asked for. Parameters: tenant.
WITH RECURSIVE step (priority, due_at) AS (
    (
        SELECT priority, due_at FROM {schema}.jobs
        WHERE tenant = %(tenant)s AND due_at > '-infinity'
        ORDER BY priority, due_at, life LIMIT 1
    )
    UNION ALL
    SELECT next.priority, next.due_at FROM step CROSS JOIN LATERAL (
        SELECT priority, due_at FROM {schema}.jobs
        WHERE tenant = %(tenant)s AND due_at > '-infinity' AND priority > step.priority
        ORDER BY priority, due_at, life LIMIT 1
    ) AS next
)

-- name: front_limit
-- How many of a front's shelf: so many as are up to a time, within its limits.
CASE WHEN front.least = 0 THEN front.most ELSE greatest(front.least, (
    SELECT count(*) FROM (
        SELECT FROM {schema}.jobs AS ripe
        WHERE ripe.shelf = front.shelf AND ripe.shelf <> 'running'
            AND ripe.kept_at <= front.until
        LIMIT front.most
    ) AS ripe
)) END

-- name: dead_leases
-- The first of those that run, as `fronts` says. Parameters: as below.
SELECT job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body
FROM unnest(
    %(shelves)b::text[], %(untils)b::float8[], %(leasts)b::bigint[], %(mosts)b::bigint[]
) AS front (shelf, until, least, most)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.jobs
    WHERE shelf = 'running' AND kept_at <= front.until
    ORDER BY kept_at, life LIMIT front.most
    {lock}
) AS job
WHERE front.shelf = 'running'

-- name: fronts_of_shelves
-- The first records of each other shelf. Parameters: shelves, untils, leasts, mosts.
SELECT job.life, job.version, job.shelf, job.tenant, job.queue, job.type, job.key, job.body
FROM unnest(
    %(shelves)b::text[], %(untils)b::float8[], %(leasts)b::bigint[], %(mosts)b::bigint[]
) AS front (shelf, until, least, most)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.jobs
    WHERE shelf = front.shelf AND shelf <> 'running'
        AND kept_at <= CASE WHEN front.least > 0 THEN 'infinity' ELSE front.until END
    ORDER BY kept_at, life LIMIT {front_limit}
    {lock}
) AS job
WHERE front.shelf <> 'running'

-- name: own_locks
-- On the lowest number that this turn could be given, for `head` to see; and on a shard, alone.
pg_advisory_xact_lock_shared(
    '{schema}.commits'::regclass::oid::integer,
    mod(
        (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.numbers), 2147483648
    )::integer
),
(
    SELECT shard FROM (SELECT generate_series(0, 9999) AS shard) AS every
    WHERE pg_try_advisory_xact_lock('{schema}.counts'::regclass::oid::integer, shard)
    LIMIT 1
)

-- name: entries_read
-- How many entries of the indexes of pending records this session has read, since some time.
pg_stat_get_xact_tuples_returned('{schema}.first'::regclass)
    + pg_stat_get_xact_tuples_returned('{schema}.ready'::regclass)
    + pg_stat_get_xact_tuples_returned('{schema}.pending'::regclass)
