-- count_silent: counts the silent waiters of an object, a part of them if the queue is long, and
-- removes the lost ones. When the count is complete, `dead` is their number, and `swept` the time.
--
-- Arguments   p_asking: the calling process, which is live, or null
-- Returns     the row for `save`
-- Locks       see `mark_dead`
-- Complexity  O(part)
-- Retry       counts the next part
CREATE OR REPLACE FUNCTION stanchion.count_silent(o stanchion.objects, p_now bigint, p_asking uuid)
RETURNS stanchion.objects
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part CONSTANT integer := 250;
    -- A count that took longer begins anew.
    longest CONSTANT bigint := 10000000;
    lost bigint[];
    silent bigint;
    seen bigint;
    last bigint;
BEGIN
    IF o.swept_up = 0 OR abs(p_now - o.swept_since) > longest THEN
        o.swept_since := p_now;
        o.swept_up := 0;
        o.swept_dead := 0;
    END IF;
    SELECT array_agg(q.arrival) FILTER (WHERE q.lost), count(*) FILTER (WHERE q.till <= p_now AND NOT q.lost),
           count(*), max(q.arrival)
    INTO lost, silent, seen, last
    FROM stanchion.each_waiter(o.namespace, o.id, p_now, p_asking, o.swept_up, part) q;
    o.swept_dead := o.swept_dead + silent;
    IF seen < part OR o.swept_up = 0 AND o.waiting <= part THEN
        o.dead := o.swept_dead;
        o.swept := p_now;
        o.swept_up := 0;
    ELSE
        o.swept_up := last;
    END IF;
    IF lost <> '{}' THEN
        DELETE FROM stanchion.waiters q WHERE q.object = o.id AND q.arrival = ANY (lost);
        o.waiting := o.waiting - cardinality(lost);
    END IF;
    o.dead := least(o.dead, o.waiting);
    RETURN o;
END
$$;
