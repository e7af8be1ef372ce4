-- wake: lets the waiters in that fit now, see `let_in`.
--
-- Arguments   the row of the object, the time, the calling process
-- Returns     the row for `save`
-- Locks       as `let_in`
-- Complexity  as `let_in`
CREATE OR REPLACE FUNCTION stanchion.wake(o stanchion.objects, p_now bigint, p_asking uuid) RETURNS stanchion.objects
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    outcome record;
BEGIN
    IF o.waiting = 0 OR o.lim IS NULL OR (o.used + o.let_room >= o.lim AND o.heaviest <= o.lim) THEN
        RETURN o;
    END IF;
    SELECT t.* INTO outcome FROM stanchion.let_in(o, p_now, p_asking, NULL, false, true) t;
    RETURN outcome.o;
END
$$;
