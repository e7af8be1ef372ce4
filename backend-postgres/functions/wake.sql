-- wake: sends hints to the waiters that `next_grants` finds.
--
-- Arguments   the row of the object, the time, the calling process
-- Returns     the row for `save`
-- Locks       as `next_grants`
-- Complexity  as `next_grants`
CREATE OR REPLACE FUNCTION stanchion.wake(o stanchion.objects, p_now bigint, p_asking uuid) RETURNS stanchion.objects
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record;
BEGIN
    IF o.waiting = 0 OR o.lim IS NULL THEN
        RETURN o;
    END IF;
    SELECT t.* INTO found FROM stanchion.next_grants(o, p_now, p_asking, NULL, true) t;
    o.heaviest := found.heaviest;
    IF found.gone > 0 THEN
        o.waiting := o.waiting - found.gone;
        o.swept := 0;
    END IF;
    RETURN o;
END
$$;
