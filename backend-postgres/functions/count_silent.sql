-- count_silent: counts the silent waiters of an object, and removes the lost ones.
--
-- Arguments   p_asking: the calling process, which is live, or null
-- Returns     dead: the number of silent waiters
--             gone: the number of removed ones
-- Locks       see `mark_dead`
-- Complexity  O(waiters): called at most once a second
CREATE OR REPLACE FUNCTION stanchion.count_silent(
    o stanchion.objects, p_now bigint, p_asking uuid, OUT dead bigint, OUT gone bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost bigint[];
BEGIN
    SELECT array_agg(q.arrival) FILTER (WHERE q.lost), count(*) FILTER (WHERE q.till <= p_now AND NOT q.lost)
    INTO lost, dead
    FROM stanchion.each_waiter(o.namespace, o.id, p_now, p_asking, 0, NULL) q;
    gone := coalesce(cardinality(lost), 0);
    IF gone > 0 THEN
        DELETE FROM stanchion.waiters q WHERE q.object = o.id AND q.arrival = ANY (lost);
    END IF;
END
$$;
