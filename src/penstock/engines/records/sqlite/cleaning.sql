-- name: first_commits
-- The first ones, with their times, which grow with the numbers, and the bytes of their events.
-- Parameters: count.
SELECT number, at, length(events) FROM penstock_commits ORDER BY number LIMIT ?;

-- name: drop_commits
-- Parameters: first_commit.
DELETE FROM penstock_commits WHERE number < ?;

-- name: raise_first_commit
-- Parameters: first_commit.
UPDATE penstock_head SET first_commit = max(first_commit, ?);

-- name: forget_departures
-- Parameters: first_commit.
DELETE FROM penstock_departures WHERE last_commit < ?;

-- name: next_sides
-- Parameters: key, count.
SELECT key FROM penstock_sides WHERE key > ? ORDER BY key LIMIT ?;

-- name: forget_sides
-- Those between two keys, the second included. Parameters: key, key, released_before.
DELETE FROM penstock_sides WHERE key > ? AND key <= ? AND released_at < ?;
