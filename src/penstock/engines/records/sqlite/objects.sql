-- name: create_object
-- Refused if the key is there. Parameters: key, version, modified_at, data.
INSERT INTO penstock_objects (key, version, modified_at, data) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: replace_object
-- Parameters: the new version, modified_at and data; then the key and the version it replaces.
UPDATE penstock_objects SET version = ?, modified_at = ?, data = ? WHERE key = ? AND version = ?;

-- name: overwrite_object
-- Parameters: key, version, modified_at, data.
INSERT OR REPLACE INTO penstock_objects (key, version, modified_at, data) VALUES (?, ?, ?, ?);

-- name: get_object
-- Parameters: key.
SELECT data, version, modified_at FROM penstock_objects WHERE key = ?;

-- name: delete_object
-- Parameters: key.
DELETE FROM penstock_objects WHERE key = ?;

-- name: list_objects
-- A page of the keys with a prefix, after one. Parameters: prefix, end (of the prefix), after,
-- count.
SELECT key, length(data), modified_at FROM penstock_objects
WHERE key >= ? AND key < ? AND key > ? ORDER BY key LIMIT ?;
