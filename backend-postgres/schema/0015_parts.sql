-- What is too much for one step goes on in the next one.
ALTER TABLE stanchion.objects
    -- Of a count of the silent waiters that is not complete: up to which arrival number it has
    -- come, how many it has found, and when it began.
    ADD COLUMN swept_up bigint NOT NULL DEFAULT 0,
    ADD COLUMN swept_dead bigint NOT NULL DEFAULT 0,
    ADD COLUMN swept_since bigint NOT NULL DEFAULT 0;

-- The lane up to which the answers of a limiter were looked at for old ones; null if they are not
-- being looked at.
ALTER TABLE stanchion.limiters ADD COLUMN lanes_up uuid;

-- The latest sign of life, the processes that are silent, and those that the sweep removes. Each is
-- only for statements that repeat its condition, as `objects_expires`.
CREATE INDEX processes_heard ON stanchion.processes (namespace, heard) WHERE kept >= 0;
CREATE INDEX processes_kept ON stanchion.processes (namespace, kept) WHERE kept > 0;

-- The watchers that are told first, and those that went away.
CREATE INDEX watchers_of_object ON stanchion.watchers (object, noted);
CREATE INDEX watchers_noted ON stanchion.watchers (noted);

-- The namespaces in which somebody has waited. One that has no row in `grace` has lost it with its
-- rows in `processes`, in a crash of the server.
CREATE TABLE stanchion.waited (namespace text COLLATE "C" PRIMARY KEY);
INSERT INTO stanchion.waited
    SELECT g.namespace FROM stanchion.grace g UNION SELECT x.namespace FROM stanchion.objects x WHERE x.waiting > 0;

-- Functions that did all at once.
DROP FUNCTION IF EXISTS stanchion.remove_expired(stanchion.objects, bigint);
DROP FUNCTION IF EXISTS stanchion.count_silent(stanchion.objects, bigint, uuid);
DROP FUNCTION IF EXISTS stanchion.force(text, bigint, text, text, uuid);
DROP FUNCTION IF EXISTS stanchion.limit_reset(text, bigint, text);
DROP FUNCTION IF EXISTS stanchion.limit_load(stanchion.limiters, bigint);
DROP FUNCTION IF EXISTS stanchion.limit_decide_one(
    stanchion.limiters, bigint, uuid, bigint, bigint, boolean, integer, integer, "char"[], bigint[], bigint[], bigint[],
    bigint[], uuid[], bigint[]
);
