-- let_anew: nobody counts as let in any more: the next look begins at the first in the queue.
--
-- Returns     the row for `save`
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.let_anew(o stanchion.objects) RETURNS stanchion.objects
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    o.let_up := 0;
    o.let_room := 0;
    o.let_due := 0;
    o.let_told := 0;
    o.let_over := 0;
    o.let_most := 0;
    RETURN o;
END
$$;
