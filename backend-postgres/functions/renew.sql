-- renew: sets the leases of holds anew.
--
-- Arguments   p_kinds, p_names, p_counts: as in `acquire`
-- Returns     the numbers of the entries whose hold was there and has its new lease; the other
--             holds are gone for good
-- Locks       the objects, in order
-- Complexity  O(entries · log holds)
-- Retry       counts the lease from the last request
CREATE OR REPLACE FUNCTION stanchion.renew(
    p_namespace text, p_tokens bigint, p_kinds text[], p_names text[], p_counts integer[],
    p_tickets uuid[], p_leases bigint[], OUT kept integer[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    claimed stanchion.objects[];
    patience text;
    hurried CONSTANT timestamptz := statement_timestamp() + interval '20 ms';
    o stanchion.objects;
    clock bigint;
    before stanchion.objects;
    first integer := 1;
    last integer;
    tickets uuid[];
    leases bigint[];
    extended integer[];
    shortest bigint;
    longest bigint;
BEGIN
    PERFORM stanchion.enter();
    patience := current_setting('lock_timeout');
    FOR i IN 1 .. cardinality(p_names) LOOP
        claimed[i] := stanchion.claim(p_namespace, p_kinds[i], p_names[i], NULL);
        IF clock_timestamp() > hurried THEN
            PERFORM stanchion.hurry(patience);
        END IF;
    END LOOP;
    clock := stanchion.now();
    kept := '{}';
    FOR i IN 1 .. cardinality(p_names) LOOP
        last := first + p_counts[i] - 1;
        IF i = 1 OR p_names[i] <> p_names[i - 1] OR p_kinds[i] <> p_kinds[i - 1] THEN
            o := claimed[i];
        END IF;
        IF o.id IS NOT NULL THEN
            tickets := p_tickets[first:last];
            leases := p_leases[first:last];
            before := o;
            IF o.next <= clock THEN
                o := stanchion.remove_expired(o, clock, cardinality(p_names));
            END IF;
            WITH changed AS (
                UPDATE stanchion.holds h SET expiry = clock + leases[array_position(tickets, h.ticket)]
                WHERE h.object + 0 = o.id AND h.ticket = ANY (tickets) AND h.expiry + 0 > clock
                RETURNING h.ticket, h.expiry
            )
            SELECT array_agg(array_position(tickets, e.ticket) + first - 1), min(e.expiry), max(e.expiry) - clock
            INTO extended, shortest, longest FROM changed e;
            kept := kept || extended;
            o.next := least(o.next, shortest);
            IF o.used < before.used THEN
                o := stanchion.wake(o, clock, NULL);
            END IF;
            PERFORM stanchion.save(o, o.next <> before.next OR o.used < before.used, clock, coalesce(longest, 0),
                p_tokens);
        END IF;
        first := last + 1;
    END LOOP;
END
$$;
