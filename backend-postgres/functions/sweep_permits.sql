-- sweep_permits: removes idle rows: objects whose retention is over, with their holds and waiters;
-- expired tombstones; watchers that went away; processes that do not wait any more; rows about
-- holds of sessions that have ended (C25).
--
-- Arguments   p_batch: maximum number of rows of each kind
-- Returns     the number of removed rows
-- Locks       rows that no other transaction has locked; waits for none
-- Complexity  O(p_batch · log objects)
-- Retry       removes more
CREATE OR REPLACE FUNCTION stanchion.sweep_permits(p_namespace text, p_batch integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    forgotten CONSTANT bigint := 10000000;
    clock CONSTANT bigint := stanchion.now();
    idle bigint[];
    -- The advisory locks that are held. Looked at, not tried: a lock for each name would fill the
    -- server's table of locks. Whose turn it is has a hold, so that the row does not expire; who
    -- has passed `turn_check` has the lock.
    keys bigint[] := '{}';
    removed bigint := 0;
    rows bigint;
BEGIN
    IF EXISTS (SELECT FROM stanchion.objects x
               WHERE x.namespace = p_namespace AND x.expires >= 0 AND x.expires <= clock AND x.keyed) THEN
        keys := ARRAY(
            SELECT l.key FROM stanchion.session_locks() l WHERE l.granted);
    END IF;
    idle := ARRAY(
        SELECT x.id FROM stanchion.objects x WHERE x.namespace = p_namespace AND x.expires >= 0 AND x.expires <= clock
            -- Not while a transaction has the mutex.
            AND NOT (x.keyed AND stanchion.session_key(x.namespace, x.name) = ANY (keys))
        LIMIT p_batch FOR UPDATE SKIP LOCKED);
    IF idle <> '{}' THEN
        DELETE FROM stanchion.holds h WHERE h.object = ANY (idle);
        GET DIAGNOSTICS rows = ROW_COUNT;
        removed := removed + rows;
        DELETE FROM stanchion.waiters w WHERE w.object = ANY (idle);
        GET DIAGNOSTICS rows = ROW_COUNT;
        removed := removed + rows;
        -- The tombstones and watchers of these objects have ended before: they are removed below.
        DELETE FROM stanchion.objects x WHERE x.id = ANY (idle);
        removed := removed + cardinality(idle);
    END IF;
    DELETE FROM stanchion.tombstones t
    USING (SELECT s.ticket, s.object FROM stanchion.tombstones s WHERE s.expiry <= clock
           LIMIT p_batch FOR UPDATE SKIP LOCKED) ended
    WHERE t.ticket = ended.ticket AND t.object = ended.object;
    GET DIAGNOSTICS rows = ROW_COUNT;
    removed := removed + rows;
    DELETE FROM stanchion.watchers w
    USING (SELECT v.object, v.process, v.hint FROM stanchion.watchers v WHERE v.noted <= clock - forgotten
           LIMIT p_batch FOR UPDATE SKIP LOCKED) ended
    WHERE w.object = ended.object AND w.process = ended.process AND w.hint = ended.hint;
    GET DIAGNOSTICS rows = ROW_COUNT;
    removed := removed + rows;
    DELETE FROM stanchion.processes p
    USING (SELECT q.process FROM stanchion.processes q WHERE q.namespace = p_namespace AND q.kept <= clock
           LIMIT p_batch FOR UPDATE SKIP LOCKED) ended
    WHERE p.namespace = p_namespace AND p.process = ended.process;
    GET DIAGNOSTICS rows = ROW_COUNT;
    removed := removed + rows;
    BEGIN
        DELETE FROM stanchion.session_grants g
        USING (SELECT s.name FROM stanchion.session_grants s
               WHERE s.namespace = p_namespace AND NOT EXISTS (
                   SELECT FROM stanchion.session_locks() l
                   WHERE l.granted AND l.pid = s.pid AND l.key = stanchion.session_key(s.namespace, s.name))
               LIMIT p_batch FOR UPDATE SKIP LOCKED) ended
        WHERE g.namespace = p_namespace AND g.name = ended.name;
        GET DIAGNOSTICS rows = ROW_COUNT;
        removed := removed + rows;
    EXCEPTION WHEN lock_not_available OR insufficient_privilege THEN
        -- What sessions hold is another role's to show.
    END;
    IF NOT EXISTS (SELECT FROM stanchion.processes p WHERE p.namespace = p_namespace)
        AND NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.namespace = p_namespace) THEN
        DELETE FROM stanchion.grace g
        USING (SELECT f.namespace FROM stanchion.grace f WHERE f.namespace = p_namespace
               FOR UPDATE SKIP LOCKED) ended
        WHERE g.namespace = ended.namespace;
        GET DIAGNOSTICS rows = ROW_COUNT;
        removed := removed + rows;
    END IF;
    RETURN removed;
END
$$;
