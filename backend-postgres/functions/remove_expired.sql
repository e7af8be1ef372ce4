-- remove_expired: removes the expired holds of an object. Afterwards every recorded hold is live.
--
-- Arguments   the row of the object, which the caller has claimed; the time
-- Returns     the row for `save`
-- Complexity  O(expired · log holds)
-- Retry       finds none
CREATE OR REPLACE FUNCTION stanchion.remove_expired(o stanchion.objects, p_now bigint) RETURNS stanchion.objects
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    freed bigint;
    latest bigint;
BEGIN
    WITH ended AS (
        DELETE FROM stanchion.holds h WHERE h.object = o.id AND h.expiry <= p_now RETURNING h.weight, h.expiry
    )
    SELECT sum(e.weight)::bigint, max(e.expiry) INTO freed, latest FROM ended e;
    IF freed > 0 THEN
        o.used := o.used - freed;
        o.touched := greatest(o.touched, latest);
        IF o.kind = 'w' THEN
            o.expired := o.expired + freed;
            IF o.used = 0 THEN
                o := stanchion.end_generation(o);
            END IF;
        END IF;
    END IF;
    SELECT coalesce(min(h.expiry), 9007199254740992) INTO o.next FROM stanchion.holds h WHERE h.object = o.id;
    RETURN o;
END
$$;
