-- remove_expired: removes expired holds of an object, a part of them if there are many. Afterwards
-- every recorded hold is live, or `next` is not after the time: then `tidy` goes on.
--
-- Arguments   the row of the object, which the caller has claimed; the time
--             p_objects: the number of objects of the step, which share what one step removes
-- Returns     the row for `save`
-- Complexity  O(part · log holds)
-- Retry       removes more
CREATE OR REPLACE FUNCTION stanchion.remove_expired(o stanchion.objects, p_now bigint, p_objects integer)
RETURNS stanchion.objects
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Maximum number of holds that one step removes; of each object, a few.
    most CONSTANT integer := 500;
    few CONSTANT integer := 4;
    freed bigint;
    latest bigint;
BEGIN
    WITH ended AS (
        DELETE FROM stanchion.holds h WHERE h.ctid = ANY (ARRAY(
            SELECT x.ctid FROM stanchion.holds x WHERE x.object = o.id AND x.expiry <= p_now
            ORDER BY x.expiry LIMIT greatest(most / p_objects, few)
        )) RETURNING h.weight, h.expiry
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
