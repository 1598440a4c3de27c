-- name: listed
-- A part of others: the life of a record, and its body if it is of a tenant, on a shelf, and of a
-- queue and type; NULL matches all. Parameters: tenant, is_pending, places (JSON), queue, type.
job.life,
CASE
    WHEN job.tenant = :tenant
        AND iif(job.place > 0, :is_pending, job.place IN (SELECT value FROM json_each(:places)))
        AND (:queue IS NULL OR job.queue = :queue) AND (:type IS NULL OR job.type = :type)
    THEN job.body
END

-- name: walk
-- One tenant's records, behind a life and up to another. Parameters: those of `listed`, after, until,
-- most.
SELECT {listed}
FROM penstock_jobs AS job INDEXED BY penstock_listed
WHERE job.tenant = :tenant AND job.life > :after AND job.life <= :until
ORDER BY job.life LIMIT :most;

-- name: of_lives
-- Parameters: those of `listed`, lives (JSON, in order).
SELECT {listed}
FROM (SELECT value FROM json_each(:lives)) AS wanted
CROSS JOIN penstock_jobs AS job ON job.life = wanted.value;

-- name: lives_at
-- The lives of what is at a place. Parameters: place, most.
SELECT life FROM penstock_jobs INDEXED BY penstock_placed WHERE place = :place LIMIT :most;

-- name: lives_in_lanes
-- Those of pending records; NULL matches all. Parameters: tenant, queue, type, most.
SELECT job.life
FROM penstock_lanes AS lane CROSS JOIN penstock_jobs AS job INDEXED BY penstock_placed
ON job.place = lane.number
WHERE lane.tenant = :tenant AND (:queue IS NULL OR lane.queue = :queue)
    AND (:type IS NULL OR lane.type = :type)
LIMIT :most;
