-- list_limiters: returns the limiters of a namespace from a name on, in the order of the bytes of
-- their names.
--
-- Arguments   the namespace; the name after which to begin; the first and the last name that may
--             begin with the prefix; how many names to look at
-- Returns     a row for each name that it looked at: whether there is a bucket that is kept, the
--             time, and the bucket as it is stored
-- Complexity  O(names · log rows)
CREATE OR REPLACE FUNCTION stanchion.list_limiters(
    p_namespace text, p_after text, p_from text, p_upto text, p_count integer
)
RETURNS TABLE (
    name text, is_listed boolean, clock bigint, amount bigint, period bigint, burst bigint, tokens bigint,
    fraction bigint, last bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp STABLE AS $$
DECLARE
    moment CONSTANT bigint := stanchion.now();
BEGIN
    PERFORM stanchion.enter();
    RETURN QUERY
    SELECT x.name, x.amount IS NOT NULL AND x.expires > moment, moment, coalesce(x.amount, 0), coalesce(x.period, 0),
           coalesce(x.burst, 0), x.tokens, x.fraction, x.last
    FROM stanchion.limiters x
    WHERE x.namespace = p_namespace AND x.name > p_after AND x.name >= p_from AND x.name <= p_upto
    ORDER BY x.name LIMIT p_count;
END
$$;
