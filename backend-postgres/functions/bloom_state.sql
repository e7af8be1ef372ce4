-- bloom_state: compares a filter with the record that a caller has seen.
--
-- Arguments   the filter's row, all null if there is none; the generation that the caller has seen
--             and its end, null if it has seen none or if it never ends; the moment
-- Returns     `l` the record that it has seen was lost (B6)   `n` there is no filter
--             `c` it is cleared   `o` there is one
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.bloom_state(
    in_filter stanchion.bloom_filters, in_known uuid, in_known_ends bigint, in_moment bigint
) RETURNS "char"
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    is_there CONSTANT boolean := in_filter.generation IS NOT NULL
        AND (in_filter.ends IS NULL OR in_filter.ends > in_moment);
    is_due CONSTANT boolean := in_known_ends IS NOT NULL AND in_known_ends <= in_moment;
BEGIN
    IF in_known IS NOT NULL AND NOT is_due AND (NOT is_there OR in_filter.generation <> in_known) THEN
        RETURN 'l';
    END IF;
    RETURN CASE WHEN NOT is_there THEN 'n' WHEN in_filter.terms IS NULL THEN 'c' ELSE 'o' END;
END
$$;
