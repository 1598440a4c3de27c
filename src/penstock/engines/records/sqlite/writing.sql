-- name: remove_job
-- Parameters: life, version.
DELETE FROM penstock_jobs WHERE life = ? AND version = ?;

-- name: insert_job
-- A life begins; refused if its id is taken. Parameters: as the columns.
INSERT INTO penstock_jobs
    (life, version, place, at, tenant, id, queue, type, key, claim, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_job
-- A life goes on. Parameters: the new version, place, at, claim and body; then the life and the
-- version that is replaced.
UPDATE penstock_jobs SET version = ?, place = ?, at = ?, claim = ?, body = ?
WHERE life = ? AND version = ?;

-- name: free_key
-- Parameters: tenant, queue, type, key, life.
DELETE FROM penstock_holds WHERE tenant = ? AND queue = ? AND type = ? AND key = ? AND life = ?;

-- name: take_key
-- Parameters: tenant, queue, type, key, id, life, until, lapses_at.
INSERT INTO penstock_holds (tenant, queue, type, key, id, life, until, lapses_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: free_lapsed_keys
-- Parameters: lapsed_at.
DELETE FROM penstock_holds WHERE lapses_at <= ?;

-- name: count
-- Adds differences. Parameters: tenant, queue, type, state, now, gone.
INSERT INTO penstock_counts (tenant, queue, type, state, now, gone) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET now = now + excluded.now, gone = gone + excluded.gone;

-- name: count_due
-- Adds differences. Parameters: tenant, queue, type, minute, records.
INSERT INTO penstock_due (tenant, queue, type, minute, records) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET records = records + excluded.records;

-- name: forget_minutes
-- Those that have begun. Parameters: minute.
DELETE FROM penstock_due WHERE minute <= ?;

-- name: add_commit
-- Parameters: number, at, events.
INSERT INTO penstock_commits (number, at, events) VALUES (?, ?, ?);

-- name: depart
-- Parameters: tenant, id, life, last_commit, trail (JSON).
INSERT OR REPLACE INTO penstock_departures (tenant, id, life, last_commit, trail)
VALUES (?, ?, ?, ?, ?);

-- name: remembered_of
-- What is remembered of an id. Parameters: tenant, id.
SELECT until, operations FROM penstock_remembered WHERE tenant = ? AND id = ?;

-- name: remember
-- Parameters: tenant, id, until, operations (JSON).
INSERT OR REPLACE INTO penstock_remembered (tenant, id, until, operations) VALUES (?, ?, ?, ?);

-- name: forget_calls
-- Parameters: lapsed_at.
DELETE FROM penstock_remembered WHERE until <= ?;

-- name: name_side
-- Parameters: key, released_at.
INSERT INTO penstock_sides (key, released_at) VALUES (?, ?)
ON CONFLICT DO UPDATE SET released_at = excluded.released_at;

-- name: move_head
-- Parameters: commit_number, at, clock, completed (a difference), and the charter that it goes by.
UPDATE penstock_head SET commit_number = ?, at = ?, clock = ?, completed = completed + ?
WHERE charter_version = ?;

-- name: set_charter
-- Parameters: charter, charter_version.
UPDATE penstock_head SET charter = ?, charter_version = ?;
