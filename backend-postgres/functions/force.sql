-- force: ends holds of any holder, and wakes the waiters that fit then.
--
-- An ended ticket leaves a tombstone for the rest of its lease: a late copy of its acquire must not
-- get a new hold with another token, which the renewals of the holder would keep.
--
-- A renewed hold comes in a later part.
--
-- Arguments   p_ticket: the ticket of the hold; null for all holds
--             p_before, p_after: for all, what the part before returned; null and 0 at first
-- Returns     freed: the number of ended holds
--             before: the time of the first part; holds that were granted later are not ended
--             next: null if there are no more holds
-- Locks       the object
-- Complexity  O(log holds) for one, O(part · log holds) for all
-- Retry       finds nothing to end, except holds that were granted in between, if it is a retry for
--             all
CREATE OR REPLACE FUNCTION stanchion.force(
    p_namespace text, p_tokens bigint, p_kind text, p_name text, p_ticket uuid,
    p_before bigint DEFAULT NULL, p_after bigint DEFAULT 0,
    OUT freed integer, OUT before bigint, OUT next bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Number of holds of a part, and a few more: those that end when the last of them does.
    part CONSTANT integer := 400;
    o stanchion.objects;
    clock bigint;
    was bigint;
    tickets uuid[];
    times bigint[];
    weight bigint;
    seen bigint;
    longest bigint := 0;
BEGIN
    freed := 0;
    PERFORM stanchion.enter();
    o := stanchion.claim(p_namespace, p_kind, p_name, NULL);
    IF o.id IS NULL THEN
        RETURN;
    END IF;
    clock := stanchion.now();
    before := coalesce(p_before, clock);
    was := o.used;
    IF o.next <= clock THEN
        o := stanchion.remove_expired(o, clock, 1);
    END IF;
    IF p_ticket IS NULL THEN
        SELECT count(*), max(y.expiry), array_agg(y.ticket) FILTER (WHERE y.granted <= before OR y.granted > clock)
        INTO seen, next, tickets
        FROM (
            -- Ordered so that no other index serves.
            SELECT h.object, h.ticket, h.expiry, h.granted FROM stanchion.holds h
            WHERE (h.object, h.expiry) > (o.id, greatest(clock, p_after))
            ORDER BY h.object, h.expiry FETCH FIRST (part) ROWS WITH TIES
        ) y
        WHERE y.object = o.id;
        IF seen < part THEN
            next := NULL;
        END IF;
    ELSE
        tickets := ARRAY[p_ticket];
    END IF;
    WITH ended AS (
        DELETE FROM stanchion.holds h WHERE h.object + 0 = o.id AND h.ticket = ANY (tickets) AND h.expiry + 0 > clock
        RETURNING h.ticket, h.expiry - clock AS rest, h.weight
    )
    SELECT array_agg(e.ticket), array_agg(e.rest), sum(e.weight)::bigint INTO tickets, times, weight FROM ended e;
    IF weight > 0 THEN
        freed := cardinality(tickets);
        longest := stanchion.leave_tombstones(o.id, clock, tickets, times, NULL);
        o.tombstones_until := greatest(o.tombstones_until, clock + longest);
        o.used := o.used - weight;
        o.touched := clock;
        IF o.kind = 'w' THEN
            o.abandoned := o.abandoned + weight;
            IF o.used = 0 THEN
                o := stanchion.end_generation(o);
            END IF;
        END IF;
    END IF;
    IF o.used < was THEN
        o := stanchion.wake(o, clock, NULL);
        PERFORM stanchion.save(o, true, clock, longest, p_tokens);
    END IF;
END
$$;
