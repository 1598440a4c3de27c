-- name: first_lanes
-- A part of others: in the order of their first records, those that have one due. Parameters: due_by,
-- paused (JSON), count.
    AND first_at <= :due_by AND queue NOT IN (SELECT value FROM json_each(:paused))
ORDER BY priority, first_at, first_life LIMIT :count

-- name: lanes
-- Of a tenant. Parameters: tenant, and those of `first_lanes`.
SELECT priority, first_at, first_life, number
FROM penstock_lanes INDEXED BY penstock_lanes_of_tenant WHERE tenant = :tenant
{first_lanes};

-- name: lanes_of_type
-- Parameters: tenant, type, and those of `first_lanes`.
SELECT priority, first_at, first_life, number
FROM penstock_lanes INDEXED BY penstock_lanes_of_type WHERE tenant = :tenant AND type = :type
{first_lanes};

-- name: lanes_of_queue
-- Parameters: tenant, queue, and those of `first_lanes`.
SELECT priority, first_at, first_life, number
FROM penstock_lanes INDEXED BY penstock_lanes_of_queue WHERE tenant = :tenant AND queue = :queue
{first_lanes};

-- name: lanes_of_both
-- Of a queue and type, by its key: a priority after the other. Parameters: tenant, queue, type, and
-- those of `first_lanes`.
SELECT priority, first_at, first_life, number
FROM penstock_lanes WHERE tenant = :tenant AND queue = :queue AND type = :type
{first_lanes};

-- name: in_lane
-- The first records of one lane that are due. Parameters: number, due_by, count.
SELECT at, life FROM penstock_jobs INDEXED BY penstock_placed
WHERE place = :number AND at <= :due_by ORDER BY at, life LIMIT :count;

-- name: next_due
-- When the first record of some lanes is due; NULL names all. Parameters: tenant, queues (JSON),
-- types (JSON), paused (JSON).
SELECT min(first_at) FROM penstock_lanes
WHERE tenant = :tenant AND queue NOT IN (SELECT value FROM json_each(:paused))
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)));

-- name: lane
-- Parameters: tenant, queue, type, priority.
SELECT number, first_at, first_life FROM penstock_lanes
WHERE tenant = ? AND queue = ? AND type = ? AND priority = ?;

-- name: lane_numbered
-- By its number, which takes a look at all: for records that are removed from it. Parameters: number.
SELECT tenant, queue, type, priority FROM penstock_lanes WHERE number = ?;

-- name: highest_place
-- The highest number that a lane has; every lane has a record.
SELECT max(place) FROM penstock_jobs;

-- name: place_of
-- Parameters: life.
SELECT place FROM penstock_jobs WHERE life = ?;

-- name: first_in_lane
-- Parameters: number.
SELECT at, life FROM penstock_jobs INDEXED BY penstock_placed
WHERE place = ? ORDER BY at, life LIMIT 1;

-- name: put_lane
-- Parameters: tenant, queue, type, priority, number, first_at, first_life.
INSERT INTO penstock_lanes (tenant, queue, type, priority, number, first_at, first_life)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET first_at = excluded.first_at, first_life = excluded.first_life;

-- name: remove_lane
-- Parameters: tenant, queue, type, priority.
DELETE FROM penstock_lanes WHERE tenant = ? AND queue = ? AND type = ? AND priority = ?;
