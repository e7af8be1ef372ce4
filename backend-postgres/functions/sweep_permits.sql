-- sweep_permits: removes idle rows: objects whose retention is over, behind their holds and
-- waiters; expired tombstones; watchers that went away; processes that do not wait any more; rows
-- about holds of sessions that have ended (C25).
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
    o stanchion.objects;
    -- Maximum number of objects with holds or waiters that are swept.
    parts integer := 2;
    freed bigint;
    gone bigint;
BEGIN
    PERFORM stanchion.enter();
    idle := ARRAY(
        -- Ordered so that no other index serves.
        SELECT x.id FROM stanchion.objects x
        WHERE x.expires >= 0 AND (x.namespace, x.expires) BETWEEN (p_namespace, 0) AND (p_namespace, clock)
        ORDER BY x.namespace, x.expires LIMIT p_batch FOR UPDATE SKIP LOCKED);
    IF EXISTS (SELECT FROM stanchion.objects x WHERE x.id = ANY (idle) AND x.keyed) THEN
        keys := ARRAY(SELECT l.key FROM stanchion.session_locks() l WHERE l.granted);
        -- Not while a transaction has the mutex.
        idle := ARRAY(SELECT x.id FROM stanchion.objects x WHERE x.id = ANY (idle)
                      AND NOT (x.keyed AND stanchion.session_key(x.namespace, x.name) = ANY (keys)));
    END IF;
    IF idle <> '{}' THEN
        -- The tombstones and watchers of these objects have ended before: they are removed below.
        DELETE FROM stanchion.objects x WHERE x.id = ANY (idle) AND x.used = 0 AND x.waiting = 0;
        GET DIAGNOSTICS rows = ROW_COUNT;
        removed := removed + rows;
        -- Of the others, the holds and waiters go first, in parts. What is left is as if nobody had
        -- swept.
        FOR o IN SELECT x.* FROM stanchion.objects x WHERE x.id = ANY (idle) AND (x.used > 0 OR x.waiting > 0) LOOP
            EXIT WHEN parts = 0;
            parts := parts - 1;
            WITH ended AS (
                DELETE FROM stanchion.holds h WHERE h.ctid = ANY (ARRAY(
                    SELECT x.ctid FROM stanchion.holds x WHERE x.object = o.id LIMIT p_batch
                )) RETURNING h.weight
            )
            SELECT coalesce(sum(e.weight), 0)::bigint, count(*) INTO freed, gone FROM ended e;
            o.used := o.used - freed;
            IF o.kind = 'w' AND freed > 0 THEN
                o.expired := o.expired + freed;
                IF o.used = 0 THEN
                    o := stanchion.end_generation(o);
                END IF;
            END IF;
            DELETE FROM stanchion.waiters w WHERE w.ctid = ANY (ARRAY(
                SELECT x.ctid FROM stanchion.waiters x WHERE x.object = o.id LIMIT p_batch));
            GET DIAGNOSTICS rows = ROW_COUNT;
            o.waiting := o.waiting - rows;
            o := stanchion.let_anew(o);
            IF o.used = 0 AND o.waiting = 0 THEN
                DELETE FROM stanchion.objects x WHERE x.id = o.id;
            ELSE
                PERFORM stanchion.save(o, true, clock, 0, NULL);
            END IF;
            removed := removed + rows + gone + 1;
        END LOOP;
    END IF;
    DELETE FROM stanchion.tombstones t WHERE t.ctid = ANY (ARRAY(
        SELECT s.ctid FROM stanchion.tombstones s WHERE s.expiry <= clock
        ORDER BY s.expiry LIMIT p_batch FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS rows = ROW_COUNT;
    removed := removed + rows;
    DELETE FROM stanchion.watchers w WHERE w.ctid = ANY (ARRAY(
        SELECT v.ctid FROM stanchion.watchers v WHERE v.noted <= clock - forgotten
        ORDER BY v.noted LIMIT p_batch FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS rows = ROW_COUNT;
    removed := removed + rows;
    DELETE FROM stanchion.processes p WHERE p.ctid = ANY (ARRAY(
        SELECT q.ctid FROM stanchion.processes q
        WHERE q.kept > 0 AND (q.namespace, q.kept) BETWEEN (p_namespace, 0) AND (p_namespace, clock)
        ORDER BY q.namespace, q.kept LIMIT p_batch FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS rows = ROW_COUNT;
    removed := removed + rows;
    BEGIN
        DELETE FROM stanchion.session_grants g
        USING (SELECT s.name FROM stanchion.session_grants s
               WHERE s.namespace = p_namespace AND (s.pid, stanchion.session_key(s.namespace, s.name)) NOT IN (
                   SELECT l.pid, l.key FROM stanchion.session_locks() l WHERE l.granted)
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
        DELETE FROM stanchion.waited w WHERE rows > 0 AND w.namespace = p_namespace;
    END IF;
    RETURN removed;
END
$$;
