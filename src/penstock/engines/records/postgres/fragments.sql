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
