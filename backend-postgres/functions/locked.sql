-- locked: returns the numbers of the objects whose row another transaction has locked at this moment, and each row's mark of
-- that transaction: if two looks find the same mark, nobody else had the row in between.
--
-- p_kinds, p_names  the objects; `l` is a limiter, `b` a Bloom filter
-- Locks     each row that is free, until the end of the transaction, and waits for none. O(objects). A retry looks again.
CREATE OR REPLACE FUNCTION stanchion.locked(
    p_namespace text, p_kinds text[], p_names text[], OUT numbers integer[], OUT lockers text[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    locker text;
BEGIN
    -- Nothing is changed, so that nothing has to reach the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    numbers := '{}';
    lockers := '{}';
    FOR i IN 1 .. cardinality(p_names) LOOP
        locker := NULL;
        IF p_kinds[i] = 'l' THEN
            PERFORM FROM stanchion.limiters x WHERE x.namespace = p_namespace AND x.name = p_names[i]
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT x.xmax::text INTO locker FROM stanchion.limiters x
                WHERE x.namespace = p_namespace AND x.name = p_names[i];
            END IF;
        ELSIF p_kinds[i] = 'b' THEN
            PERFORM FROM stanchion.bloom_filters x WHERE x.namespace = p_namespace AND x.name = p_names[i]
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT x.xmax::text INTO locker FROM stanchion.bloom_filters x
                WHERE x.namespace = p_namespace AND x.name = p_names[i];
            END IF;
        ELSE
            PERFORM FROM stanchion.objects x
            WHERE x.namespace = p_namespace AND x.kind = p_kinds[i]::"char" AND x.name = p_names[i]
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT x.xmax::text INTO locker FROM stanchion.objects x
                WHERE x.namespace = p_namespace AND x.kind = p_kinds[i]::"char" AND x.name = p_names[i];
            END IF;
        END IF;
        IF locker IS NOT NULL THEN
            numbers := numbers || i;
            lockers := lockers || locker;
        END IF;
    END LOOP;
END
$$;
