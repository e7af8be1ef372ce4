-- bloom_lock: locks the row of a filter. Makes a missing row first, if it is told to.
--
-- A new row means that there is no filter. The sweep removes it unless a filter is made.
--
-- Arguments   namespace, name, whether a missing row is made
-- Returns     the row; null if there is none
-- Locks       the row of `bloom_filters`; a step that locks several does so in the order of the
--             names' bytes
-- Complexity  O(1)
-- Retry       makes no row twice
CREATE OR REPLACE FUNCTION stanchion.bloom_lock(in_namespace text, in_name text, in_making boolean)
RETURNS stanchion.bloom_filters
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    f stanchion.bloom_filters;
    missed boolean := false;
BEGIN
    LOOP
        SELECT b.* INTO f FROM stanchion.bloom_filters AS b
        WHERE b.namespace = in_namespace AND b.name = in_name
        FOR UPDATE;
        EXIT WHEN FOUND OR NOT in_making;
        IF missed THEN
            -- As in `claim`.
            PERFORM stanchion.pass_ids('bloom_filters');
        END IF;
        INSERT INTO stanchion.bloom_filters AS b (namespace, name, ends)
        VALUES (in_namespace, in_name, 0)
        ON CONFLICT DO NOTHING
        RETURNING b.* INTO f;
        EXIT WHEN FOUND;
        missed := true;
    END LOOP;
    RETURN f;
END
$$;
