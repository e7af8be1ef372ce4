-- limit_lock: locks the rows of limiters, made first where wanted and missing.
--
-- Names are taken strictly one after the other, so that two batches that are in the same order never wait for each
-- other both ways.
--
-- Arguments   namespace; names, distinct, in the order of their bytes; whether missing rows are made
-- Returns     the rows, in that order; null where there is none
-- Locks       rows of `limiters`, in that order
-- Complexity  O(names)
-- Retry       makes nothing twice
CREATE FUNCTION stanchion.limit_lock(in_namespace text, in_names text[], in_making boolean)
RETURNS stanchion.limiters[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    rows stanchion.limiters[];
    found_row stanchion.limiters;
BEGIN
    PERFORM stanchion.enter();
    FOR i IN 1 .. cardinality(in_names) LOOP
        LOOP
            SELECT l.* INTO found_row FROM stanchion.limiters AS l
            WHERE l.namespace = in_namespace AND l.name = in_names[i]
            FOR UPDATE;
            EXIT WHEN FOUND OR NOT in_making;
            INSERT INTO stanchion.limiters AS l (namespace, name)
            VALUES (in_namespace, in_names[i])
            ON CONFLICT DO NOTHING
            RETURNING l.* INTO found_row;
            EXIT WHEN FOUND;
        END LOOP;
        rows[i] := found_row;
    END LOOP;
    RETURN rows;
END
$$;
