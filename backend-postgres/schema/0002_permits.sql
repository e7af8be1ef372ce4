-- The tables of mutexes in lease mode, semaphores and wait groups.
--
-- Times are µs since 1970 by this server's clock; numbers stay below 2^53. A transaction that
-- changes any row of an object holds the lock of the object's row in `objects`. Rows of known
-- tickets are searched by ticket: `object + 0` in a condition keeps the planner from reading all
-- rows of the object instead, even if it expects few of them.

CREATE TABLE stanchion.objects (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    -- m: mutex, s: semaphore, w: wait group
    kind "char" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- The limit; null if no request has brought one yet.
    lim bigint,
    -- The last fencing token.
    token bigint NOT NULL DEFAULT 0,
    -- Sum of the weights of the recorded holds.
    used bigint NOT NULL DEFAULT 0,
    -- Number of waiters.
    waiting bigint NOT NULL DEFAULT 0,
    -- Lower bound of the expiry of all recorded holds.
    next bigint NOT NULL DEFAULT 9007199254740992,
    -- When a hold ended last.
    touched bigint NOT NULL DEFAULT 0,
    -- Upper bound of the expiry of all tombstones.
    tombstones_until bigint NOT NULL DEFAULT 0,
    -- The last arrival number.
    arrival bigint NOT NULL DEFAULT 0,
    -- Upper bounds of the leases and weights of the waiters.
    longest bigint NOT NULL DEFAULT 0,
    heaviest bigint NOT NULL DEFAULT 0,
    -- Number of silent waiters at the last full count, and the time of that count.
    dead bigint NOT NULL DEFAULT 0,
    swept bigint NOT NULL DEFAULT 0,
    -- When the row was made, which identifies this life of the object.
    epoch bigint NOT NULL,
    -- When the sweep may remove the row.
    expires bigint NOT NULL,
    -- Of wait groups: the number of the open generation, or of the last one; how its members ended
    -- so far; the outcomes of the last 16 ended generations, in order; the sum of the outcomes
    -- before them. An outcome is four numbers: finished, abandoned, expired, and 1. The last one is
    -- 0 for a generation of cancelled members only: it repeats the outcome before it, and is not
    -- part of the sum.
    generation bigint NOT NULL DEFAULT 0,
    finished bigint NOT NULL DEFAULT 0,
    abandoned bigint NOT NULL DEFAULT 0,
    expired bigint NOT NULL DEFAULT 0,
    past bigint[],
    old bigint[],
    UNIQUE (namespace, kind, name)
) WITH (fillfactor = 50);

-- For the sweep only, whose statement repeats the condition. Without it, the planner of a young
-- database would rate this index as high as the one by name, although a search for a name by this
-- index reads all others.
CREATE INDEX objects_expires ON stanchion.objects (namespace, expires) WHERE expires >= 0;

CREATE TABLE stanchion.holds (
    object bigint NOT NULL,
    ticket uuid NOT NULL,
    weight bigint NOT NULL,
    expiry bigint NOT NULL,
    granted bigint NOT NULL,
    token bigint NOT NULL,
    label text,
    PRIMARY KEY (ticket, object)
);

CREATE INDEX holds_expiry ON stanchion.holds (object, expiry);

-- Tickets that were cancelled or released: their acquire is refused until `expiry`. `call` names
-- the call that left the tombstone, if a retry of that call has to recognise it.
CREATE TABLE stanchion.tombstones (
    object bigint NOT NULL,
    ticket uuid NOT NULL,
    expiry bigint NOT NULL,
    call uuid,
    PRIMARY KEY (ticket, object)
);

CREATE INDEX tombstones_expiry ON stanchion.tombstones (expiry);

CREATE TABLE stanchion.waiters (
    object bigint NOT NULL,
    arrival bigint NOT NULL,
    ticket uuid NOT NULL,
    process uuid NOT NULL,
    weight bigint NOT NULL,
    lease bigint NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (object, arrival),
    UNIQUE (ticket, object)
);

-- Processes with waiters. `heard` is the time of their last sign of life, negative once the process
-- was judged dead; the row is needed until `kept`. A crash of the server empties this table; see
-- `grace`.
CREATE UNLOGGED TABLE stanchion.processes (
    namespace text COLLATE "C" NOT NULL,
    process uuid NOT NULL,
    heard bigint NOT NULL,
    kept bigint NOT NULL,
    PRIMARY KEY (namespace, process)
) WITH (fillfactor = 50);

-- When the last grace period began, in which no process is judged dead; 0 if there was none yet. A
-- namespace that has waiters but no row here has lost its rows in `processes`, too.
CREATE UNLOGGED TABLE stanchion.grace (
    namespace text COLLATE "C" PRIMARY KEY,
    started bigint NOT NULL
);

-- Processes that wait for the end of a wait group's open generation. They renew `noted` while they
-- wait.
CREATE UNLOGGED TABLE stanchion.watchers (
    object bigint NOT NULL,
    process uuid NOT NULL,
    hint uuid NOT NULL,
    noted bigint NOT NULL,
    PRIMARY KEY (object, process, hint)
);
