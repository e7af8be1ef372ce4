-- bloom_merge: sets all bits that are set in some pages.
--
-- Arguments   namespace, name; the terms of the caller, its time to live, the generation that it
--             has seen, its end, and the generation of a new filter; pages, distinct, and 2048
--             bytes for each
-- Returns     `t`, `m` or `l`, with the same columns as from `bloom_probe`
-- Locks       the row of `bloom_filters`
-- Complexity  O(log pages) for each page, which is written once
-- Retry       sets the same bits again, which changes nothing
CREATE OR REPLACE FUNCTION stanchion.bloom_merge(
    in_namespace text, in_name text, in_terms text, in_ttl bigint, in_known uuid, in_known_ends bigint, in_fresh uuid,
    in_pages integer[], in_bytes bytea[],
    OUT code "char", OUT generation uuid, OUT ends bigint, OUT terms text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    f stanchion.bloom_filters;
    moment bigint;
    state "char";
    merged record;
BEGIN
    PERFORM stanchion.enter();
    f := stanchion.bloom_lock(in_namespace, in_name, true);
    moment := stanchion.now() / 1000;
    state := stanchion.bloom_state(f, in_known, in_known_ends, moment);
    IF state = 'l' THEN
        code := 'l';
        RETURN;
    ELSIF state = 'o' AND f.terms <> in_terms THEN
        code := 'm';
        terms := f.terms;
        RETURN;
    END IF;
    f := stanchion.bloom_open(f, in_namespace, state, in_terms, in_ttl, in_fresh, moment);
    WITH asked AS MATERIALIZED (
        SELECT b.page, ('x' || encode(b.bytes, 'hex'))::bit varying AS bits
        FROM unnest(in_pages, in_bytes) AS b (page, bytes)
    ), missing AS (
        SELECT a.page, coalesce(a.bits & ~p.bits, a.bits) AS mask, p.bits IS NULL AS absent
        FROM asked AS a LEFT JOIN LATERAL (
            SELECT q.bits FROM stanchion.bloom_pages AS q WHERE q.image = f.image AND q.page = a.page LIMIT 1
        ) AS p ON true
    )
    SELECT array_agg(m.page) AS pages, array_agg(m.mask) AS masks, array_agg(m.absent) AS absent,
        bool_or(m.absent AND stanchion.bloom_was_made(f.image, f.made, m.page)) AS lost
    INTO merged FROM missing AS m WHERE bit_count(m.mask) > 0;
    IF merged.lost THEN
        code := 'l';
        RETURN;
    END IF;
    IF merged.pages IS NOT NULL THEN
        f := stanchion.bloom_write(f, merged.pages, merged.masks, merged.absent);
    END IF;
    IF merged.pages IS NOT NULL OR state <> 'o' THEN
        PERFORM stanchion.bloom_save(f);
    END IF;
    code := 't';
    generation := f.generation;
    ends := f.ends;
END
$$;
