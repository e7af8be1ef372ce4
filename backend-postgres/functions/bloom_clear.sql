-- bloom_clear: empties a filter. Its row stays for a while, so that a caller that has seen the
-- filter learns that it was not lost.
--
-- Arguments   namespace, name, how long the row stays in ms
-- Returns     its generation and the end of the row; null if there is no filter
-- Locks       the row of `bloom_filters`, then, under it, of `bloom_images`
-- Complexity  O(1): the sweep removes the pages
-- Retry       clears it again
CREATE OR REPLACE FUNCTION stanchion.bloom_clear(
    in_namespace text, in_name text, in_kept bigint, OUT generation uuid, OUT ends bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    f stanchion.bloom_filters;
    moment bigint;
BEGIN
    PERFORM stanchion.enter();
    f := stanchion.bloom_lock(in_namespace, in_name, false);
    moment := stanchion.now() / 1000;
    IF stanchion.bloom_state(f, NULL, NULL, moment) = 'n' THEN
        RETURN;
    END IF;
    UPDATE stanchion.bloom_images AS i SET is_over = true WHERE i.id = f.image;
    f.image := NULL;
    f.terms := NULL;
    f.ends := moment + in_kept;
    f.bits_set := 0;
    PERFORM stanchion.bloom_save(f);
    generation := f.generation;
    ends := f.ends;
END
$$;
