-- The tables of mutexes in lease mode, semaphores and wait groups.
--
-- Times are microseconds since 1970 by this server's clock; numbers stay below 2^53. Whoever changes anything that
-- belongs to an object holds the lock of its row in `objects`. Rows of known tickets are searched by ticket: where a
-- statement says `object + 0`, the planner must not take all rows of the object instead, however few it believes they are.

CREATE TABLE stanchion.objects (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    -- m: mutex, s: semaphore, w: wait group
    kind "char" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- The limit; null where none was ever brought.
    lim bigint,
    -- The last fencing token.
    token bigint NOT NULL DEFAULT 0,
    -- The weight of the recorded holds.
    used bigint NOT NULL DEFAULT 0,
    -- How many wait.
    waiting bigint NOT NULL DEFAULT 0,
    -- No recorded hold expires before.
    next bigint NOT NULL DEFAULT 9007199254740992,
    -- When a hold ended last.
    touched bigint NOT NULL DEFAULT 0,
    -- No tombstone lasts longer.
    buried bigint NOT NULL DEFAULT 0,
    -- The last arrival number.
    arrival bigint NOT NULL DEFAULT 0,
    -- Upper bounds of the leases and weights of those who wait.
    longest bigint NOT NULL DEFAULT 0,
    heaviest bigint NOT NULL DEFAULT 0,
    -- How many of them were silent at the last full count, and when that was.
    dead bigint NOT NULL DEFAULT 0,
    swept bigint NOT NULL DEFAULT 0,
    -- Names the life of this row.
    born bigint NOT NULL,
    -- When the row may be swept.
    expires bigint NOT NULL,
    -- Of wait groups: the number of the open generation or of the last one, how its members ended so far, the outcomes
    -- of the last 16 ended ones in order, and the sum of those before. An outcome is: finished, abandoned, expired, and 1,
    -- or 0 for a generation of cancelled members only, which repeats the one before and is not summed.
    generation bigint NOT NULL DEFAULT 0,
    finished bigint NOT NULL DEFAULT 0,
    abandoned bigint NOT NULL DEFAULT 0,
    expired bigint NOT NULL DEFAULT 0,
    past bigint[],
    old bigint[],
    UNIQUE (namespace, kind, name)
) WITH (fillfactor = 50);

-- For the sweep alone, whose condition says so: the planner of a young database takes any two indexes that begin with the
-- namespace for equally good, and this one leads to a name past all others.
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

-- A ticket that was cancelled or released: its acquire is refused until then. `call` names the call that left it, where
-- a retry of that call has to know.
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

-- Processes that wait: when they were heard last, negative once judged dead, and until when that is worth knowing.
-- A crash of the server empties this table; see `grace`.
CREATE UNLOGGED TABLE stanchion.processes (
    namespace text COLLATE "C" NOT NULL,
    process uuid NOT NULL,
    heard bigint NOT NULL,
    kept bigint NOT NULL,
    PRIMARY KEY (namespace, process)
) WITH (fillfactor = 50);

-- When the last grace began, in which nobody is judged dead; 0 for none yet. A namespace with waiters and without its row
-- has lost `processes` too.
CREATE UNLOGGED TABLE stanchion.grace (
    namespace text COLLATE "C" PRIMARY KEY,
    started bigint NOT NULL
);

-- Who waits for the end of a wait group's open generation. Noted anew while they do.
CREATE UNLOGGED TABLE stanchion.watchers (
    object bigint NOT NULL,
    process uuid NOT NULL,
    hint uuid NOT NULL,
    noted bigint NOT NULL,
    PRIMARY KEY (object, process, hint)
);
