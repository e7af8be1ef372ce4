-- cancel: withdraws acquisitions in every state.
--
-- It ends the hold, removes the waiter, and leaves the tombstone that is asked for, whatever it
-- found: a copy of the acquire may still be under way. A cancelled member of a wait group is not
-- counted in the outcome.
--
-- Arguments   p_kinds, p_names, p_counts: as in `acquire`
--             p_leases: how long the tombstones stay, 0 for none
-- Locks       the objects, in order
-- Complexity  O(entries · (log holds + log waiters))
-- Retry       changes only the times of the tombstones
CREATE OR REPLACE FUNCTION stanchion.cancel(
    p_namespace text, p_tokens bigint, p_kinds text[], p_names text[], p_counts integer[],
    p_tickets uuid[], p_leases bigint[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    liveness CONSTANT bigint := 1000000;
    claimed stanchion.objects[];
    patience text;
    hurried CONSTANT timestamptz := statement_timestamp() + interval '20 ms';
    o stanchion.objects;
    clock bigint;
    before bigint;
    first integer := 1;
    last integer;
    tickets uuid[];
    freed bigint;
    gone bigint;
    came bigint;
    kept bigint;
    is_unknown boolean;
    longest bigint;
BEGIN
    PERFORM stanchion.enter();
    patience := current_setting('lock_timeout');
    FOR i IN 1 .. cardinality(p_names) LOOP
        claimed[i] := stanchion.claim(p_namespace, p_kinds[i], p_names[i], p_tokens);
        IF clock_timestamp() > hurried THEN
            PERFORM stanchion.hurry(patience);
        END IF;
    END LOOP;
    clock := stanchion.now();
    FOR i IN 1 .. cardinality(p_names) LOOP
        last := first + p_counts[i] - 1;
        tickets := p_tickets[first:last];
        IF i = 1 OR p_names[i] <> p_names[i - 1] OR p_kinds[i] <> p_kinds[i - 1] THEN
            o := claimed[i];
        END IF;
        before := o.used;
        IF o.next <= clock THEN
            o := stanchion.remove_expired(o, clock, cardinality(p_names));
        END IF;
        IF o.used > 0 THEN
            WITH ended AS (
                DELETE FROM stanchion.holds h WHERE h.object + 0 = o.id AND h.ticket = ANY (tickets) RETURNING h.weight
            )
            SELECT coalesce(sum(e.weight), 0)::bigint INTO freed FROM ended e;
            IF freed > 0 THEN
                o.used := o.used - freed;
                o.touched := clock;
                IF o.kind = 'w' AND o.used = 0 THEN
                    o := stanchion.end_generation(o);
                END IF;
            END IF;
        END IF;
        gone := 0;
        IF o.waiting > 0 THEN
            WITH ended AS (
                DELETE FROM stanchion.waiters w WHERE w.object + 0 = o.id AND w.ticket = ANY (tickets)
                RETURNING w.weight, w.arrival <= o.let_up AND w.weight <= o.lim AS was_let_in, EXISTS (
                    SELECT FROM stanchion.processes p WHERE p.namespace = o.namespace AND p.process = w.process
                    AND p.heard BETWEEN clock - liveness AND clock + liveness) AS is_live
            )
            SELECT count(*), count(*) FILTER (WHERE e.was_let_in),
                   coalesce(sum(e.weight) FILTER (WHERE e.was_let_in), 0)::bigint,
                   coalesce(bool_or(e.was_let_in AND NOT e.is_live), false)
            INTO gone, came, kept, is_unknown FROM ended e;
            o.waiting := o.waiting - gone;
            o.let_due := o.let_due - came;
            o.let_room := o.let_room - kept;
            -- Of a process that was silent, it is not known who was let in.
            IF came > 0 AND (is_unknown OR o.let_due <= 0) THEN
                o := stanchion.let_anew(o);
            END IF;
        END IF;
        longest := stanchion.leave_tombstones(o.id, clock, tickets, p_leases[first:last], NULL);
        o.tombstones_until := greatest(o.tombstones_until, clock + longest);
        IF o.used < before OR gone > 0 THEN
            o := stanchion.wake(o, clock, NULL);
        END IF;
        PERFORM stanchion.save(o, true, clock, longest, p_tokens);
        first := last + 1;
    END LOOP;
END
$$;
