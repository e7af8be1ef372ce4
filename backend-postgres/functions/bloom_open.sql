-- bloom_open: makes a filter if there is none.
--
-- Arguments   a locked row; namespace; the answer of `bloom_state` for it: `n`, `c` or `o`; the
--             terms and the time to live, null for none; the generation of a new filter; the moment
-- Returns     the row as it is then; only its image is written
-- Locks       rows of `bloom_images`, under the lock of the filter
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.bloom_open(
    in_filter stanchion.bloom_filters, in_namespace text, in_state "char", in_terms text, in_ttl bigint,
    in_fresh uuid, in_moment bigint
) RETURNS stanchion.bloom_filters
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    f stanchion.bloom_filters := in_filter;
BEGIN
    IF in_state = 'o' THEN
        RETURN f;
    END IF;
    UPDATE stanchion.bloom_images AS i SET is_over = true WHERE i.id = f.image;
    LOOP
        INSERT INTO stanchion.bloom_images AS i (namespace) VALUES (in_namespace)
        ON CONFLICT ON CONSTRAINT bloom_images_pkey DO NOTHING
        RETURNING i.id INTO f.image;
        EXIT WHEN FOUND;
        PERFORM stanchion.pass_ids('bloom_images');
    END LOOP;
    IF in_state = 'n' THEN
        f.generation := in_fresh;
    END IF;
    f.terms := in_terms;
    f.ends := in_moment + in_ttl;
    f.made := repeat('0', 1024)::bit(1024);
    f.bits_set := 0;
    RETURN f;
END
$$;
