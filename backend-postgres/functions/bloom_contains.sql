-- bloom_contains: answers a part of a request that asks whether a filter contains items.
--
-- Arguments   the filter's row, all null if there is none; the moment; the terms of the caller, the
--             generation that it has seen and its end; the number of items; pages, pairs and the
--             range of pages, as for `bloom_unset`
-- Returns     the answer, as `bloom_probe` describes it
-- Complexity  O(pairs); O(log pages) for each page
CREATE OR REPLACE FUNCTION stanchion.bloom_contains(
    in_filter stanchion.bloom_filters, in_moment bigint, in_terms text, in_known uuid, in_known_ends bigint,
    in_count integer, in_pages integer[], in_upto integer[], in_pairs integer[], in_first integer, in_last integer,
    OUT code "char", OUT generation uuid, OUT ends bigint, OUT lacking bytea, OUT terms text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp STABLE
AS $$
DECLARE
    f CONSTANT stanchion.bloom_filters := in_filter;
    state CONSTANT "char" := stanchion.bloom_state(f, in_known, in_known_ends, in_moment);
    unset record;
BEGIN
    IF state = 'l' THEN
        code := 'l';
        RETURN;
    ELSIF state = 'n' THEN
        code := 'e';
        RETURN;
    ELSIF state = 'o' AND f.terms <> in_terms THEN
        code := 'm';
        terms := f.terms;
        RETURN;
    END IF;
    generation := f.generation;
    ends := f.ends;
    IF state = 'c' THEN
        code := 'e';
        RETURN;
    END IF;
    SELECT array_agg(DISTINCT u.pair >> 14) AS items, bool_or(u.lost) AS lost INTO unset
    FROM stanchion.bloom_unset(f.image, f.made, in_pages, in_upto, in_pairs, in_first, in_last) AS u;
    code := CASE WHEN unset.lost THEN 'l' ELSE 't' END;
    lacking := stanchion.bloom_flags(in_count, unset.items);
END
$$;
