-- bloom_survey: returns the state of a whole filter.
--
-- Arguments   namespace, name; the generation that the caller has seen and its end
-- Returns     `t` with generation, end, terms and the number of set bits; `e` or `l` as from
--             `bloom_probe`
-- Complexity  O(1): set bits are counted when they are set
CREATE OR REPLACE FUNCTION stanchion.bloom_survey(
    in_namespace text, in_name text, in_known uuid, in_known_ends bigint,
    OUT code "char", OUT generation uuid, OUT ends bigint, OUT terms text, OUT bits_set bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp STABLE
AS $$
DECLARE
    f stanchion.bloom_filters;
    state "char";
BEGIN
    PERFORM stanchion.enter();
    SELECT b.* INTO f FROM stanchion.bloom_filters AS b WHERE b.namespace = in_namespace AND b.name = in_name;
    state := stanchion.bloom_state(f, in_known, in_known_ends, stanchion.now() / 1000);
    code := CASE state WHEN 'o' THEN 't' WHEN 'l' THEN 'l' ELSE 'e' END;
    IF state IN ('o', 'c') THEN
        generation := f.generation;
        ends := f.ends;
        terms := f.terms;
        bits_set := f.bits_set;
    END IF;
END
$$;
