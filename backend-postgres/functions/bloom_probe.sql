-- bloom_probe: executes a request.
--
-- A request is sent in parts. Each part inserts items into a filter, or asks whether the filter
-- contains them.
--
-- Arguments   namespace; lane and number of the request; names, distinct, in the order of their
--             bytes; the number of parts of each name; then for each part, name by name:
--             kind (`i` insert, `c` contains), terms, time to live in ms or null, the generation
--             that the caller has seen and its end, both null for none, the generation of a new
--             filter, the number of items, the index of the last page of the part;
--             and pages and pairs as for `bloom_unset`, part by part
-- Returns     a row for each part, with one of these codes:
--             `t` answered: generation, end, and as from `bloom_flags` the items that lack a bit
--                 which no other item asked for: an inserted item that lacks one is new, any other
--                 is not contained
--             `e` there is no filter; if it was cleared, its generation and end
--             `m` the terms differ: the terms of the filter
--             `l` it was lost
--             `u` a later request of the lane was answered before
-- Locks       rows of `bloom_filters`, in the order of the names; none if nothing is new
-- Complexity  O(pairs); O(log pages) for each page, which is written at most once by each part
-- Retry       the lane and number name the request: its inserts get the answers of the first time,
--             for 60 s
CREATE OR REPLACE FUNCTION stanchion.bloom_probe(
    in_namespace text, in_lane uuid, in_number bigint, in_names text[], in_parts integer[], in_kinds "char"[],
    in_terms text[], in_ttls bigint[], in_known uuid[], in_known_ends bigint[], in_fresh uuid[], in_counts integer[],
    in_runs integer[], in_pages integer[], in_upto integer[], in_pairs integer[]
) RETURNS SETOF stanchion.bloom_told
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    answers CONSTANT stanchion.bloom_told[] := stanchion.bloom_look(
        in_namespace, in_lane, in_number, in_names, in_parts, in_kinds, in_terms, in_known, in_known_ends, in_counts,
        in_runs, in_pages, in_upto, in_pairs
    );
    rows stanchion.bloom_filters[];
    moment bigint;
    known record;
    f stanchion.bloom_filters;
    told stanchion.bloom_told;
    done record;
    news bytea[];
    changed boolean;
    first integer := 1;
    run integer := 1;
BEGIN
    IF answers IS NOT NULL THEN
        RETURN QUERY SELECT a.* FROM unnest(answers) AS a;
        RETURN;
    END IF;
    PERFORM stanchion.enter();
    FOR i IN 1 .. cardinality(in_names) LOOP
        rows[i] := stanchion.bloom_lock(
            in_namespace, in_names[i], 'i' = ANY (in_kinds[first : first + in_parts[i] - 1])
        );
        first := first + in_parts[i];
    END LOOP;
    moment := stanchion.now() / 1000;
    first := 1;
    FOR i IN 1 .. cardinality(in_names) LOOP
        f := rows[i];
        SELECT b.number, b.generation, b.ends, b.news INTO known
        FROM stanchion.bloom_flights AS b WHERE b.filter = f.id AND b.lane = in_lane;
        news := array_fill(NULL::bytea, ARRAY[in_parts[i]]);
        changed := false;
        FOR part IN first .. first + in_parts[i] - 1 LOOP
            IF in_kinds[part] = 'c' THEN
                told := stanchion.bloom_contains(
                    f, moment, in_terms[part], in_known[part], in_known_ends[part], in_counts[part], in_pages, in_upto,
                    in_pairs, run, in_runs[part]
                );
            ELSIF known.number > in_number THEN
                told := NULL;
                told.code := 'u';
            ELSIF known.number = in_number AND known.news[part - first + 1] IS NOT NULL THEN
                told := NULL;
                told.code := 't';
                told.generation := known.generation;
                told.ends := known.ends;
                told.lacking := known.news[part - first + 1];
                news[part - first + 1] := told.lacking;
            ELSE
                done := stanchion.bloom_insert(
                    f, in_namespace, moment, in_terms[part], in_ttls[part], in_known[part], in_known_ends[part],
                    in_fresh[part], in_counts[part], in_pages, in_upto, in_pairs, run, in_runs[part]
                );
                IF (done.changed).id IS NOT NULL THEN
                    f := done.changed;
                    changed := true;
                END IF;
                told := NULL;
                told.code := done.code;
                told.terms := done.terms;
                IF done.code = 't' THEN
                    told.generation := f.generation;
                    told.ends := f.ends;
                    told.lacking := done.lacking;
                    news[part - first + 1] := told.lacking;
                END IF;
            END IF;
            RETURN NEXT told;
            run := in_runs[part] + 1;
        END LOOP;
        IF changed THEN
            PERFORM stanchion.bloom_save(f);
            INSERT INTO stanchion.bloom_flights AS b (filter, lane, number, answered, generation, ends, news)
            VALUES (f.id, in_lane, in_number, moment, f.generation, f.ends, news)
            ON CONFLICT ON CONSTRAINT bloom_flights_pkey DO UPDATE
            SET number = EXCLUDED.number, answered = EXCLUDED.answered, generation = EXCLUDED.generation,
                ends = EXCLUDED.ends, news = EXCLUDED.news;
        END IF;
        first := first + in_parts[i];
    END LOOP;
END
$$;
