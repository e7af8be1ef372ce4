-- tidy: removes a part of the expired holds of objects where more have ended than one step removes.
--
-- Arguments   p_kinds, p_names: the objects, distinct, in the order of kind and name
-- Returns     the numbers of the objects at which there is more, or whose rows are locked
-- Locks       rows of objects that no other transaction has locked; waits for none
-- Complexity  O(part · log holds + objects)
-- Retry       removes more
CREATE OR REPLACE FUNCTION stanchion.tidy(
    p_namespace text, p_process uuid, p_tokens bigint, p_kinds text[], p_names text[]
) RETURNS integer[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Maximum number of objects of which a few holds are removed, behind one of which many are.
    most CONSTANT integer := 64;
    looked integer := 0;
    o stanchion.objects;
    clock bigint := stanchion.now();
    before bigint;
    more integer[] := '{}';
BEGIN
    PERFORM stanchion.enter();
    -- What is lost with the server is removed again.
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR i IN 1 .. cardinality(p_names) LOOP
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM stanchion.objects x
            WHERE x.namespace = p_namespace AND x.kind = p_kinds[i]::"char" AND x.name = p_names[i] AND x.next <= clock);
        SELECT x.* INTO o FROM stanchion.objects x
        WHERE looked < most AND x.namespace = p_namespace AND x.kind = p_kinds[i]::"char" AND x.name = p_names[i]
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            more := more || i;
            CONTINUE;
        END IF;
        clock := stanchion.now();
        before := o.used;
        o := stanchion.remove_expired(o, clock, CASE WHEN looked = 0 THEN 1 ELSE 500 END);
        looked := looked + 1;
        IF o.used < before THEN
            o := stanchion.wake(o, clock, p_process);
        END IF;
        PERFORM stanchion.save(o, true, clock, 0, p_tokens);
        IF o.next <= clock THEN
            more := more || i;
        END IF;
    END LOOP;
    RETURN more;
END
$$;
