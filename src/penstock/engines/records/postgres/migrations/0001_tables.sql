-- The tables of a queue, in a schema of their own. All times are seconds since the epoch. Names are
-- compared by their bytes, so that no database's locale changes an order or an index.

-- Where the queue is: one row. `commit_number` is no higher than those of the commits that are there;
-- it matters when vacuum has left none.
CREATE TABLE {schema}.head (
    only_row boolean PRIMARY KEY CHECK (only_row),
    commit_number bigint NOT NULL,
    first_commit bigint NOT NULL,
    charter bytea NOT NULL,
    charter_version bigint NOT NULL
);
INSERT INTO {schema}.head VALUES (true, 0, 1, '', 0);

-- The numbers of commits. Uncached, so that whoever asks later gets the higher one.
CREATE SEQUENCE {schema}.numbers AS bigint MINVALUE 1 CACHE 1;

-- One record per job. `due_at` is set while it is pending, `kept_at` otherwise: each has
-- indexes of its own. A key is any text, also one that `text` can't hold.
CREATE TABLE {schema}.jobs (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    life bigint NOT NULL,
    version bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    key bytea,
    priority bigint NOT NULL,
    shelf text COLLATE "C" NOT NULL,
    due_at double precision,
    kept_at double precision,
    claim text COLLATE "C",
    body bytea NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01);
-- What is pending, in the order of claims: of each queue and type, for claims that name queues; of each
-- type, for those that name types alone; and of all. None of them looks at one lane after another for
-- what it did not ask for.
CREATE INDEX pending ON {schema}.jobs (tenant, queue, type, priority, due_at, life)
    WHERE due_at IS NOT NULL;
-- Said in other words each, so that no statement can go by one that it is not written for: a plan may be
-- made while there is nothing, when all look the same.
CREATE INDEX ready ON {schema}.jobs (tenant, type, priority, due_at, life)
    WHERE due_at >= '-infinity';
CREATE INDEX first ON {schema}.jobs (tenant, priority, due_at, life)
    WHERE due_at > '-infinity';
-- Leases are apart, so that what is finished is appended to an index of its own and stays dense.
CREATE INDEX leases ON {schema}.jobs (kept_at, life) WHERE shelf = 'running';
CREATE INDEX kept ON {schema}.jobs (shelf, kept_at, life) WITH (fillfactor = 100)
    WHERE kept_at IS NOT NULL AND shelf <> 'running';
-- For lists, page by page. Those that run are few, and looked for by their leases. None but the
-- primary key begins with the tenant and has all records, so that no plan, were it made while there
-- were none, can go by another when a record is looked for by its id.
CREATE INDEX listed_pending ON {schema}.jobs (tenant, life) WHERE shelf = 'pending';
CREATE INDEX listed ON {schema}.jobs (shelf, tenant, life) WITH (fillfactor = 100)
    WHERE shelf <> 'pending' AND shelf <> 'running';
-- Claims have long names, so their hashes are kept.
CREATE INDEX claimed ON {schema}.jobs (hashtextextended(claim, 0)) WHERE claim IS NOT NULL;

-- Keys that are taken.
CREATE TABLE {schema}.holds (
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    id text COLLATE "C" NOT NULL,
    life bigint NOT NULL,
    until double precision,
    lapses_at double precision,
    PRIMARY KEY (tenant, queue, type, key)
);
CREATE INDEX lapsing ON {schema}.holds (lapses_at) WHERE lapses_at IS NOT NULL;

-- Jobs ever, by type and state, and those of them that left. A row per shard, of which every turn under way
-- has one to itself: adding to them never waits. What counts is their sum.
CREATE TABLE {schema}.counts (
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    shard integer NOT NULL,
    now bigint NOT NULL,
    gone bigint NOT NULL,
    PRIMARY KEY (tenant, queue, type, state, shard)
) WITH (fillfactor = 50);

-- Pending records by the minute in which they come due, by shard. Only minutes that have not begun
-- matter.
CREATE TABLE {schema}.due (
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    minute bigint NOT NULL,
    shard integer NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (tenant, queue, type, minute, shard)
) WITH (fillfactor = 50);
CREATE INDEX minutes ON {schema}.due (minute);

-- What else the turns of each shard have to add: how many records are on the shelf of completed ones, and
-- the latest time of a commit, with what its writer took for the time.
CREATE TABLE {schema}.shards (
    shard integer PRIMARY KEY,
    completed bigint NOT NULL,
    at double precision NOT NULL,
    clock double precision NOT NULL
) WITH (fillfactor = 50);

-- What happened: the events of each commit, as lines of JSON below a header, packed if they are few.
CREATE TABLE {schema}.commits (
    number bigint PRIMARY KEY WITH (fillfactor = 100),
    at double precision NOT NULL,
    events bytea NOT NULL
);

-- Where the histories of jobs that left are.
CREATE TABLE {schema}.departures (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    life bigint NOT NULL,
    last_commit bigint NOT NULL,
    trail bigint[] NOT NULL,
    PRIMARY KEY (tenant, id, life)
);
CREATE INDEX departed ON {schema}.departures (last_commit);

-- Which calls began the lives of jobs that left not long ago, as JSON.
CREATE TABLE {schema}.remembered (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    until double precision NOT NULL,
    operations bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX forgettable ON {schema}.remembered (until);

-- Who waits for work: the handle and its name for it, what for (NULL: any), since when, and the session
-- that hears for it, without which it is nobody. Who was woken waits no more, but is there for a while,
-- so that others leave to it what it was woken for. After a crash nobody waits, so no log is needed.
CREATE UNLOGGED TABLE {schema}.waiters (
    name text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    queues text[],
    types text[],
    session integer NOT NULL,
    since timestamptz NOT NULL,
    woken_at timestamptz
);
CREATE INDEX waiting_since ON {schema}.waiters (since);

-- Side objects that a job names, or once did.
CREATE TABLE {schema}.sides (
    key text COLLATE "C" PRIMARY KEY,
    released_at double precision
);

-- What is kept beside the records: large values, registrations, leaderships.
CREATE TABLE {schema}.objects (
    key text COLLATE "C" PRIMARY KEY,
    version text NOT NULL,
    modified_at double precision NOT NULL,
    data bytea NOT NULL
);

-- Refuses a write that did not meet what it was decided on, so that it can be sent together with
-- its COMMIT and whoever sent it needs to look only once.
CREATE FUNCTION {schema}.expect(met bigint, wanted bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF met IS DISTINCT FROM wanted THEN
        RAISE EXCEPTION 'met % of %', met, wanted USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN true;
END
$$;
