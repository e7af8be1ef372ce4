-- turn_key: lets all grants of a mutex test its advisory lock, before the caller's transaction
-- waits for that.
--
-- Arguments   p_ticket: the hold of the caller, whose turn it is
-- Returns     false if the hold has ended
-- Locks       the object
-- Complexity  O(log holds)
-- Retry       does the same
CREATE OR REPLACE FUNCTION stanchion.turn_key(p_namespace text, p_name text, p_ticket uuid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o stanchion.objects;
BEGIN
    PERFORM stanchion.enter();
    o := stanchion.claim(p_namespace, 'm', p_name, NULL);
    IF NOT EXISTS (
        SELECT FROM stanchion.holds h
        WHERE h.object + 0 = o.id AND h.ticket = p_ticket AND h.expiry > stanchion.now())
    THEN
        RETURN false;
    END IF;
    UPDATE stanchion.objects x SET keyed = true WHERE x.id = o.id AND NOT x.keyed;
    RETURN true;
END
$$;
