-- force: ends holds of any holder, and wakes the waiters that fit then.
--
-- An ended ticket leaves a tombstone for the rest of its lease: a late copy of its acquire must not
-- get a new hold with another token, which the renewals of the holder would keep.
--
-- Arguments   p_ticket: the ticket of the hold; null for all holds
-- Returns     the number of ended holds
-- Locks       the object
-- Complexity  O(log holds) for one, O(holds) for all
-- Retry       finds nothing to end, except holds that were granted in between, if it is a retry for
--             all
CREATE OR REPLACE FUNCTION stanchion.force(p_namespace text, p_tokens bigint, p_kind text, p_name text, p_ticket uuid)
RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o stanchion.objects;
    clock bigint;
    before bigint;
    tickets uuid[];
    times bigint[];
    freed bigint;
    longest bigint := 0;
BEGIN
    PERFORM stanchion.enter();
    o := stanchion.claim(p_namespace, p_kind, p_name, NULL);
    IF o.id IS NULL THEN
        RETURN 0;
    END IF;
    clock := stanchion.now();
    before := o.used;
    IF o.next <= clock THEN
        o := stanchion.remove_expired(o, clock);
    END IF;
    IF p_ticket IS NULL THEN
        WITH ended AS (
            DELETE FROM stanchion.holds h WHERE h.object = o.id RETURNING h.ticket, h.expiry - clock AS rest, h.weight
        )
        SELECT array_agg(e.ticket), array_agg(e.rest), sum(e.weight)::bigint INTO tickets, times, freed FROM ended e;
    ELSE
        DELETE FROM stanchion.holds h WHERE h.object + 0 = o.id AND h.ticket = p_ticket
        RETURNING ARRAY[h.ticket], ARRAY[h.expiry - clock], h.weight INTO tickets, times, freed;
    END IF;
    IF freed > 0 THEN
        longest := stanchion.leave_tombstones(o.id, clock, tickets, times, NULL);
        o.tombstones_until := greatest(o.tombstones_until, clock + longest);
        o.used := o.used - freed;
        o.touched := clock;
        IF o.kind = 'w' THEN
            o.abandoned := o.abandoned + freed;
            IF o.used = 0 THEN
                o := stanchion.end_generation(o);
            END IF;
        END IF;
    END IF;
    IF o.used < before THEN
        o := stanchion.wake(o, clock, NULL);
        PERFORM stanchion.save(o, true, clock, longest, p_tokens);
    END IF;
    RETURN coalesce(cardinality(tickets), 0);
END
$$;
