-- claim: locks an object's row and returns its newest version.
--
-- Arguments   p_tokens: the retention of tokens, with which a missing row is made; null makes no
--             row
-- Returns     the row; null if it is missing and was not made
-- Locks       the row. A step claims all its objects in the order of kind and name, before any
--             other lock
-- Complexity  O(log objects)
-- Retry       finds the row
CREATE OR REPLACE FUNCTION stanchion.claim(p_namespace text, p_kind text, p_name text, p_tokens bigint)
RETURNS stanchion.objects
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o stanchion.objects;
    clock bigint;
    missed boolean := false;
BEGIN
    LOOP
        SELECT x.* INTO o FROM stanchion.objects x
        WHERE x.namespace = p_namespace AND x.kind = p_kind::"char" AND x.name = p_name
        FOR UPDATE;
        IF FOUND OR p_tokens IS NULL THEN
            RETURN o;
        END IF;
        IF missed THEN
            -- Nobody has made this row: one of another name has its number.
            PERFORM stanchion.pass_ids('objects');
        END IF;
        clock := stanchion.now();
        INSERT INTO stanchion.objects AS x (namespace, kind, name, epoch, expires)
        VALUES (p_namespace, p_kind::"char", p_name, clock, clock + p_tokens / 8 * 9)
        ON CONFLICT DO NOTHING
        RETURNING x.* INTO o;
        IF FOUND THEN
            RETURN o;
        END IF;
        missed := true;
    END LOOP;
END
$$;
