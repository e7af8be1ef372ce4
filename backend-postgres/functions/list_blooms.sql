-- list_blooms: returns the Bloom filters of a namespace from a name on, in the order of the bytes
-- of their names.
--
-- Arguments   as for `list_limiters`
-- Returns     a row for each name that it looked at: whether there is a filter that is not cleared
--             and has not ended, and its capacity
-- Complexity  O(names · log rows)
CREATE OR REPLACE FUNCTION stanchion.list_blooms(
    p_namespace text, p_after text, p_from text, p_upto text, p_count integer
)
RETURNS TABLE (name text, is_listed boolean, capacity bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp STABLE AS $$
DECLARE
    moment CONSTANT bigint := stanchion.now() / 1000;
BEGIN
    PERFORM stanchion.enter();
    RETURN QUERY
    SELECT x.name, x.image IS NOT NULL AND (x.ends IS NULL OR x.ends > moment), split_part(x.terms, ' ', 1)::bigint
    FROM stanchion.bloom_filters x
    WHERE x.namespace = p_namespace AND x.name > p_after AND x.name >= p_from AND x.name <= p_upto
    ORDER BY x.name LIMIT p_count;
END
$$;
