-- The tables of a queue. All times are seconds since the epoch. Strict, so that a slip of somebody
-- who edits them by hand is refused and does not turn bytes into text.

-- Where the queue is: one row.
CREATE TABLE penstock_head (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    commit_number INTEGER NOT NULL,
    at REAL NOT NULL,
    clock REAL NOT NULL,
    completed INTEGER NOT NULL,
    first_commit INTEGER NOT NULL,
    charter BLOB NOT NULL,
    charter_version INTEGER NOT NULL
) STRICT;
INSERT INTO penstock_head VALUES (1, 0, 0.0, 0.0, 0, 1, X'', 0);

-- One record per job. Its place is that of one index: a lane while it is pending (its number, from 1
-- on), and otherwise a shelf: -1 running, -2 completed, -3 dead, -4 archived. `at` is what it is
-- sorted by there. Every index has the life behind its columns.
CREATE TABLE penstock_jobs (
    life INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    place INTEGER NOT NULL,
    at REAL NOT NULL,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    key TEXT,
    claim TEXT,
    body BLOB NOT NULL,
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX penstock_placed ON penstock_jobs (place, at);
CREATE INDEX penstock_claimed ON penstock_jobs (claim) WHERE claim IS NOT NULL;
-- For lists: written when a life begins and when it leaves, and never between.
CREATE INDEX penstock_listed ON penstock_jobs (tenant);

-- The lanes that have pending records, each with its first. Whatever a claim names, the lanes that
-- it may take from are in one of these in the order of their first records, so that it reads no more
-- of them than it takes jobs. A turn brings up to date those that it has changed.
CREATE TABLE penstock_lanes (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    priority INTEGER NOT NULL,
    number INTEGER NOT NULL,
    first_at REAL NOT NULL,
    first_life INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue, type, priority)
) STRICT, WITHOUT ROWID;
CREATE INDEX penstock_lanes_of_tenant ON penstock_lanes
    (tenant, priority, first_at, first_life, number);
CREATE INDEX penstock_lanes_of_type ON penstock_lanes
    (tenant, type, priority, first_at, first_life, number);
CREATE INDEX penstock_lanes_of_queue ON penstock_lanes
    (tenant, queue, priority, first_at, first_life, number);

-- Keys that are taken.
CREATE TABLE penstock_holds (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    life INTEGER NOT NULL,
    until REAL,
    lapses_at REAL,
    PRIMARY KEY (tenant, queue, type, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX penstock_lapsing ON penstock_holds (lapses_at) WHERE lapses_at IS NOT NULL;

-- Jobs ever, by type and state; and those of them that left.
CREATE TABLE penstock_counts (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    now INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue, type, state)
) STRICT, WITHOUT ROWID;

-- Pending records by the minute in which they come due. Only minutes that have not begun matter.
CREATE TABLE penstock_due (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    minute INTEGER NOT NULL,
    records INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue, type, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX penstock_minutes ON penstock_due (minute);

-- What happened: the events of each commit, as lines of JSON below a header; small ones are packed.
CREATE TABLE penstock_commits (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    events BLOB NOT NULL
) STRICT;

-- Where the histories of jobs that left are.
CREATE TABLE penstock_departures (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    life INTEGER NOT NULL,
    last_commit INTEGER NOT NULL,
    trail TEXT NOT NULL,
    PRIMARY KEY (tenant, id, life)
) STRICT, WITHOUT ROWID;
CREATE INDEX penstock_departed ON penstock_departures (last_commit);

-- Which calls began the lives of jobs that left not long ago.
CREATE TABLE penstock_remembered (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    until REAL NOT NULL,
    operations TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX penstock_forgettable ON penstock_remembered (until);

-- Side objects that a job names, or once did.
CREATE TABLE penstock_sides (
    key TEXT PRIMARY KEY,
    released_at REAL
) STRICT, WITHOUT ROWID;

-- What is kept beside the records: large values, registrations, leaderships.
CREATE TABLE penstock_objects (
    key TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    modified_at REAL NOT NULL,
    data BLOB NOT NULL
) STRICT;
