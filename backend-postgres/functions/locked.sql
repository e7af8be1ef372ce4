-- locked: returns the objects of which other transactions have rows locked at this moment, with the
-- marks of these transactions on the rows: if two looks find the same mark, that one had the rows
-- in between, too. A request of ours that waits for such a row has others locked itself; therefore
-- all marks count.
--
-- Arguments   the kinds and names of the objects: `l` is a limiter, `b` a Bloom filter; of the
--             others the rows of up to 200 holds and waiters each, of fewer where
--             there are many objects, count, too
-- Returns     numbers: the numbers of the objects, each as often as it has marks
--             lockers: the marks
-- Locks       each row that is free and was changed or locked before, until the end of the
--             transaction; waits for none; where a table is locked, it fails at once
-- Complexity  O(objects + rows that count)
-- Retry       looks again
CREATE OR REPLACE FUNCTION stanchion.locked(
    p_namespace text, p_kinds text[], p_names text[], OUT numbers integer[], OUT lockers text[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    marks text[];
    id bigint;
    -- Maximum number of holds and of waiters of a name that are looked at.
    most CONSTANT integer := least(greatest(2000 / cardinality(p_names), 20), 200);
    marked uuid[];
    free uuid[];
BEGIN
    PERFORM stanchion.enter();
    -- Others wait for the connection.
    PERFORM set_config('lock_timeout', '1ms', true);
    -- Nothing is changed, so that nothing has to reach the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    numbers := '{}';
    lockers := '{}';
    FOR i IN 1 .. cardinality(p_names) LOOP
        marks := '{}';
        IF p_kinds[i] = 'l' THEN
            PERFORM FROM stanchion.limiters x WHERE x.namespace = p_namespace AND x.name = p_names[i]
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT array_remove(ARRAY[x.xmax::text], '0') INTO marks FROM stanchion.limiters x
                WHERE x.namespace = p_namespace AND x.name = p_names[i];
            END IF;
        ELSIF p_kinds[i] = 'b' THEN
            PERFORM FROM stanchion.bloom_filters x WHERE x.namespace = p_namespace AND x.name = p_names[i]
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT array_remove(ARRAY[x.xmax::text], '0') INTO marks FROM stanchion.bloom_filters x
                WHERE x.namespace = p_namespace AND x.name = p_names[i];
            END IF;
        ELSE
            SELECT x.id INTO id FROM stanchion.objects x
            WHERE x.namespace = p_namespace AND x.kind = p_kinds[i]::"char" AND x.name = p_names[i]
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT x.id, array_remove(ARRAY[x.xmax::text], '0') INTO id, marks FROM stanchion.objects x
                WHERE x.namespace = p_namespace AND x.kind = p_kinds[i]::"char" AND x.name = p_names[i];
            END IF;
            -- Ordered so that no other index serves.
            marked := ARRAY(
                SELECT h.ticket
                FROM (SELECT y.object, y.ticket, y.xmax FROM stanchion.holds y
                      WHERE (y.object, y.expiry) > (id, 0) ORDER BY y.object, y.expiry LIMIT most) h
                WHERE h.object = id AND h.xmax::text <> '0');
            IF marked <> '{}' THEN
                free := ARRAY(
                    SELECT h.ticket FROM stanchion.holds h WHERE h.object + 0 = id AND h.ticket = ANY (marked)
                    FOR UPDATE SKIP LOCKED);
                marks := marks || ARRAY(
                    SELECT DISTINCT h.xmax::text FROM stanchion.holds h
                    WHERE h.object + 0 = id AND h.ticket = ANY (marked) AND h.ticket <> ALL (free));
            END IF;
            marked := ARRAY(
                SELECT w.ticket
                FROM (SELECT y.object, y.ticket, y.xmax FROM stanchion.waiters y
                      WHERE (y.object, y.arrival) > (id, 0) ORDER BY y.object, y.arrival LIMIT most) w
                WHERE w.object = id AND w.xmax::text <> '0');
            IF marked <> '{}' THEN
                free := ARRAY(
                    SELECT w.ticket FROM stanchion.waiters w WHERE w.object + 0 = id AND w.ticket = ANY (marked)
                    FOR UPDATE SKIP LOCKED);
                marks := marks || ARRAY(
                    SELECT DISTINCT w.xmax::text FROM stanchion.waiters w
                    WHERE w.object + 0 = id AND w.ticket = ANY (marked) AND w.ticket <> ALL (free));
            END IF;
        END IF;
        numbers := numbers || array_fill(i, ARRAY[coalesce(cardinality(marks), 0)]);
        lockers := lockers || marks;
    END LOOP;
END
$$;
