-- bloom_lock: locks the row of a filter, made first where wanted and missing.
--
-- A row that was made says that there is no filter; the sweep takes it out unless one is made.
--
-- Arguments   namespace, name, whether a missing row is made
-- Returns     the row; null where there is none
-- Locks       the row of `bloom_filters`; whoever locks several does so in the order of the names' bytes
-- Complexity  O(1)
-- Retry       makes nothing twice
CREATE FUNCTION stanchion.bloom_lock(in_namespace text, in_name text, in_making boolean)
RETURNS stanchion.bloom_filters
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    f stanchion.bloom_filters;
BEGIN
    LOOP
        SELECT b.* INTO f FROM stanchion.bloom_filters AS b
        WHERE b.namespace = in_namespace AND b.name = in_name
        FOR UPDATE;
        EXIT WHEN FOUND OR NOT in_making;
        INSERT INTO stanchion.bloom_filters AS b (namespace, name, ends)
        VALUES (in_namespace, in_name, 0)
        ON CONFLICT DO NOTHING
        RETURNING b.* INTO f;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN f;
END
$$;
