-- expired_weight: returns the weight of the expired holds of an object, and when the last of them
-- ended.
--
-- Arguments   the object, the time
-- Complexity  O(part · log holds); with more of them, `untidy`
CREATE OR REPLACE FUNCTION stanchion.expired_weight(p_object bigint, p_now bigint, OUT weight bigint, OUT latest bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp STABLE AS $$
DECLARE
    part CONSTANT integer := 500;
    seen bigint;
BEGIN
    SELECT coalesce(sum(e.weight), 0)::bigint, max(e.expiry), count(*) INTO weight, latest, seen
    FROM (
        -- Ordered so that no other index serves.
        SELECT h.object, h.weight, h.expiry FROM stanchion.holds h
        WHERE (h.object, h.expiry) > (p_object, 0) ORDER BY h.object, h.expiry LIMIT part
    ) e
    WHERE e.object = p_object AND e.expiry <= p_now;
    IF seen = part THEN
        PERFORM stanchion.untidy();
    END IF;
END
$$;
