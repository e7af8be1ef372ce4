-- bloom_read: returns the bits of some pages.
--
-- Arguments   namespace, name; the generation that the caller has seen and its end; the first and
--             the last page
-- Returns     `t` with the terms, the pages that have set bits, in order, and their bytes; `e` or
--             `l` as from `bloom_probe`
-- Complexity  O(pages · log pages)
CREATE OR REPLACE FUNCTION stanchion.bloom_read(
    in_namespace text, in_name text, in_known uuid, in_known_ends bigint, in_first integer, in_last integer,
    OUT code "char", OUT terms text, OUT pages integer[], OUT bytes bytea[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp STABLE
AS $$
DECLARE
    f stanchion.bloom_filters;
    state "char";
    lost boolean;
BEGIN
    PERFORM stanchion.enter();
    SELECT b.* INTO f FROM stanchion.bloom_filters AS b WHERE b.namespace = in_namespace AND b.name = in_name;
    state := stanchion.bloom_state(f, in_known, in_known_ends, stanchion.now() / 1000);
    IF state <> 'o' THEN
        code := CASE state WHEN 'l' THEN 'l' ELSE 'e' END;
        RETURN;
    END IF;
    -- The binary form begins with the number of bits, in 4 bytes.
    SELECT array_agg(p.page ORDER BY p.page), array_agg(substr(varbit_send(p.bits), 5) ORDER BY p.page)
    INTO pages, bytes
    FROM stanchion.bloom_pages AS p WHERE p.image = f.image AND p.page BETWEEN in_first AND in_last;
    SELECT bool_or(stanchion.bloom_was_made(f.image, f.made, n.page)) INTO lost
    FROM generate_series(in_first, in_last) AS n (page) WHERE n.page <> ALL (coalesce(pages, '{}'));
    code := CASE WHEN lost THEN 'l' ELSE 't' END;
    terms := f.terms;
END
$$;
