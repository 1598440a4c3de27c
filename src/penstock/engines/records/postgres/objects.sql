-- name: create_object
-- Refused if the key is there. Parameters: key, version, data.
INSERT INTO {schema}.objects (key, version, modified_at, data)
VALUES (%(key)s, %(version)s, extract(epoch FROM clock_timestamp()), %(data)b)
ON CONFLICT (key) DO NOTHING RETURNING modified_at;

-- name: replace_object
-- Parameters: key, version, data, and found: the version it replaces.
UPDATE {schema}.objects
SET version = %(version)s, modified_at = extract(epoch FROM clock_timestamp()), data = %(data)b
WHERE key = %(key)s AND version = %(found)s RETURNING modified_at;

-- name: overwrite_object
-- Parameters: key, version, data.
INSERT INTO {schema}.objects (key, version, modified_at, data)
VALUES (%(key)s, %(version)s, extract(epoch FROM clock_timestamp()), %(data)b)
ON CONFLICT (key) DO UPDATE SET
    version = excluded.version, modified_at = excluded.modified_at, data = excluded.data
RETURNING modified_at;

-- name: get_object
-- Parameters: key.
SELECT data, version, modified_at FROM {schema}.objects WHERE key = %(key)s;

-- name: delete_object
-- Parameters: key.
DELETE FROM {schema}.objects WHERE key = %(key)s;

-- name: list_objects
-- A page of the keys with a prefix, after one. Parameters: prefix, end (of the prefix), after, count.
SELECT key, length(data)::bigint, modified_at FROM {schema}.objects
WHERE key >= %(prefix)s AND key < %(end)s AND key > %(after)s ORDER BY key LIMIT %(count)s;
