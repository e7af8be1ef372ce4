-- bloom_look: answers a request that changes nothing, from one view of the tables.
--
-- Bits are only ever set while a filter lives: an item that is not new in that view is not new
-- under the filter's lock. If an item is new, a few pages nearly always show it.
--
-- Arguments   as for `bloom_probe`
-- Returns     an answer for each part; null if an item is new, if a filter must be made or refused,
--             or if the request may have been answered before
-- Complexity  O(pairs); O(log pages) for each page
CREATE OR REPLACE FUNCTION stanchion.bloom_look(
    in_namespace text, in_lane uuid, in_number bigint, in_names text[], in_parts integer[], in_kinds "char"[],
    in_terms text[], in_known uuid[], in_known_ends bigint[], in_counts integer[], in_runs integer[],
    in_pages integer[], in_upto integer[], in_pairs integer[]
) RETURNS stanchion.bloom_told[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp STABLE
AS $$
DECLARE
    glance CONSTANT integer := 8;
    moment CONSTANT bigint := stanchion.now() / 1000;
    f stanchion.bloom_filters;
    told stanchion.bloom_told;
    answers stanchion.bloom_told[];
    upto integer;
    first integer := 1;
    run integer := 1;
BEGIN
    PERFORM stanchion.enter();
    FOR i IN 1 .. cardinality(in_names) LOOP
        SELECT b.* INTO f FROM stanchion.bloom_filters AS b WHERE b.namespace = in_namespace AND b.name = in_names[i];
        FOR part IN first .. first + in_parts[i] - 1 LOOP
            upto := CASE WHEN in_kinds[part] = 'i' THEN least(run + glance, in_runs[part]) ELSE in_runs[part] END;
            LOOP
                told := stanchion.bloom_contains(
                    f, moment, in_terms[part], in_known[part], in_known_ends[part], in_counts[part], in_pages,
                    in_upto, in_pairs, run, upto
                );
                IF in_kinds[part] = 'i' AND (told.code <> 't' OR bit_count(told.lacking) > 0) THEN
                    RETURN NULL;
                END IF;
                EXIT WHEN upto = in_runs[part];
                upto := in_runs[part];
            END LOOP;
            answers[part] := told;
            run := in_runs[part] + 1;
        END LOOP;
        IF EXISTS (
            SELECT FROM stanchion.bloom_flights AS b
            WHERE b.filter = f.id AND b.lane = in_lane AND b.number >= in_number
        ) THEN
            RETURN NULL;
        END IF;
        first := first + in_parts[i];
    END LOOP;
    RETURN answers;
END
$$;
