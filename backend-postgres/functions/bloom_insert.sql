-- bloom_insert: executes a part of a request that inserts items.
--
-- Of equal items, and of items that share a bit, only the first one has that bit among its pairs.
-- An item is new if it lacks one of its pairs' bits.
--
-- Arguments   a locked row; namespace; the moment; the terms of the caller, its time to live, the
--             generation that it has seen, its end, and the generation of a new filter; the number
--             of items; pages, pairs and the range of pages, as for `bloom_unset`
-- Returns     the answer, as `bloom_probe` describes it, and the row as it is then, which is not
--             written; null if unchanged
-- Complexity  O(pairs); O(log pages) for each page, which is written once
CREATE OR REPLACE FUNCTION stanchion.bloom_insert(
    in_filter stanchion.bloom_filters, in_namespace text, in_moment bigint, in_terms text, in_ttl bigint,
    in_known uuid, in_known_ends bigint, in_fresh uuid, in_count integer, in_pages integer[], in_upto integer[],
    in_pairs integer[], in_first integer, in_last integer,
    OUT code "char", OUT lacking bytea, OUT terms text, OUT changed stanchion.bloom_filters
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    f stanchion.bloom_filters := in_filter;
    state CONSTANT "char" := stanchion.bloom_state(f, in_known, in_known_ends, in_moment);
    unset record;
BEGIN
    IF state = 'l' THEN
        code := 'l';
        RETURN;
    ELSIF state = 'o' AND f.terms <> in_terms THEN
        code := 'm';
        terms := f.terms;
        RETURN;
    END IF;
    f := stanchion.bloom_open(f, in_namespace, state, in_terms, in_ttl, in_fresh, in_moment);
    WITH missing AS MATERIALIZED (
        SELECT u.page, u.pair, u.absent, u.lost
        FROM stanchion.bloom_unset(f.image, f.made, in_pages, in_upto, in_pairs, in_first, in_last) AS u
    ), masks AS (
        SELECT m.page, stanchion.bloom_mask(m.pair & 16383, 1)::bit varying AS mask, bool_or(m.absent) AS absent,
            bool_or(m.lost) AS lost
        FROM missing AS m GROUP BY m.page
    )
    SELECT (SELECT array_agg(DISTINCT m.pair >> 14) FROM missing AS m) AS items, array_agg(k.page) AS pages,
        array_agg(k.mask) AS masks, array_agg(k.absent) AS absent, bool_or(k.lost) AS lost
    INTO unset FROM masks AS k;
    IF unset.lost THEN
        code := 'l';
        RETURN;
    END IF;
    code := 't';
    lacking := stanchion.bloom_flags(in_count, unset.items);
    IF unset.pages IS NOT NULL THEN
        changed := stanchion.bloom_write(f, unset.pages, unset.masks, unset.absent);
    ELSIF state <> 'o' THEN
        changed := f;
    END IF;
END
$$;
