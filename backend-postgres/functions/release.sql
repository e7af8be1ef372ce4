-- release: ends holds, and wakes the waiters that fit then.
--
-- Arguments   p_kinds, p_names, p_counts: as in `acquire`
--             p_tombstones: how long a tombstone stays, 0 for none
--             p_finished: how a member ends: finished, or abandoned
--             p_calls: the call that leaves the tombstone, or null
-- Returns     the numbers of the entries whose hold was there
-- Locks       the objects, in order
-- Complexity  O(entries · log holds); with a queue O(log waiters + waiters passed over or woken)
-- Retry       finds no hold and changes only the time of the tombstone. With a call, it finds the
--             tombstone of that call and gives the same answer
CREATE OR REPLACE FUNCTION stanchion.release(
    p_namespace text, p_tokens bigint, p_kinds text[], p_names text[], p_counts integer[],
    p_tickets uuid[], p_tombstones bigint[], p_finished boolean[], p_calls uuid[], OUT kept integer[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count CONSTANT integer := cardinality(p_names);
    -- Without tombstones, a missing row of an object is not made: it has no holds to end.
    leaves_tombstones CONSTANT boolean := 0 < ANY (p_tombstones);
    claimed stanchion.objects[];
    patience text;
    hurried CONSTANT timestamptz := statement_timestamp() + interval '20 ms';
    o stanchion.objects;
    clock bigint;
    before bigint;
    was stanchion.objects;
    first integer := 1;
    last integer;
    tickets uuid[] := p_tickets;
    times bigint[];
    finished boolean[];
    calls uuid[];
    here integer[];
    told integer[];
    freed bigint;
    done bigint;
    longest bigint;
    -- What was decided without the loop, and how many of it the loop has passed.
    free integer[] := '{}';
    passed integer := 0;
BEGIN
    PERFORM stanchion.enter();
    patience := current_setting('lock_timeout');
    kept := '{}';
    -- For a single object the loop is the shorter way.
    IF count > 1 AND cardinality(p_tickets) = count AND NOT leaves_tombstones THEN
        SELECT f.done, f.kept INTO free, kept FROM stanchion.release_free(p_namespace, p_tokens, p_kinds, p_names, p_tickets) f;
        IF cardinality(free) = count THEN
            RETURN;
        END IF;
    END IF;
    FOR i IN 1 .. count LOOP
        IF free[passed + 1] = i THEN
            passed := passed + 1;
        ELSE
            claimed[i] := stanchion.claim(
                p_namespace, p_kinds[i], p_names[i], CASE WHEN leaves_tombstones THEN p_tokens END);
            IF clock_timestamp() > hurried THEN
                PERFORM stanchion.hurry(patience);
            END IF;
        END IF;
    END LOOP;
    clock := stanchion.now();
    passed := 0;
    FOR i IN 1 .. count LOOP
        last := first + p_counts[i] - 1;
        IF free[passed + 1] = i THEN
            passed := passed + 1;
            first := last + 1;
            CONTINUE;
        END IF;
        -- The row as it is after the entry before it, if that is one of the same object.
        IF i = 1 OR claimed[i].id IS NULL OR claimed[i - 1].id IS DISTINCT FROM claimed[i].id THEN
            o := claimed[i];
        END IF;
        IF count > 1 THEN
            tickets := p_tickets[first:last];
        END IF;
        IF o.id IS NOT NULL THEN
            before := o.used;
            was := o;
            IF o.next <= clock THEN
                o := stanchion.remove_expired(o, clock, count);
            END IF;
            finished := p_finished[first:last];
            WITH ended AS (
                DELETE FROM stanchion.holds h
                WHERE h.object + 0 = o.id AND h.ticket = ANY (tickets) AND h.expiry + 0 > clock
                RETURNING array_position(tickets, h.ticket) AS k, h.weight
            )
            SELECT coalesce(array_agg(e.k), '{}'), coalesce(sum(e.weight), 0)::bigint,
                   coalesce(sum(e.weight) FILTER (WHERE finished[e.k]), 0)::bigint
            INTO here, freed, done FROM ended e;
            longest := 0;
            told := here;
            IF leaves_tombstones THEN
                times := p_tombstones[first:last];
                calls := p_calls[first:last];
                SELECT told || coalesce(array_agg(b.k), '{}') INTO told
                FROM (SELECT array_position(tickets, t.ticket) AS k, t.call FROM stanchion.tombstones t
                      WHERE t.object + 0 = o.id AND t.ticket = ANY (tickets) AND t.expiry + 0 > clock) b
                WHERE b.call = calls[b.k] AND b.k <> ALL (here);
                longest := stanchion.leave_tombstones(o.id, clock,
                    ARRAY(SELECT CASE WHEN e.call IS NULL OR e.k = ANY (here) THEN e.ticket END
                          FROM unnest(tickets, calls) WITH ORDINALITY e (ticket, call, k) ORDER BY e.k),
                    times, calls);
                o.tombstones_until := greatest(o.tombstones_until, clock + longest);
            END IF;
            kept := kept || ARRAY(SELECT e.k + first - 1 FROM unnest(told) e (k));
            IF freed > 0 THEN
                o.used := o.used - freed;
                o.touched := clock;
                IF o.kind = 'w' THEN
                    o.finished := o.finished + done;
                    o.abandoned := o.abandoned + freed - done;
                    IF o.used = 0 THEN
                        o := stanchion.end_generation(o);
                    END IF;
                END IF;
            END IF;
            -- Also for a retry: the hint of the first call may be lost with its answer.
            IF o.waiting > 0 AND (o.used < before OR freed = 0) THEN
                o := stanchion.wake(o, clock, NULL);
            END IF;
            PERFORM stanchion.save(o, o IS DISTINCT FROM was, clock, longest, p_tokens);
        END IF;
        first := last + 1;
    END LOOP;
END
$$;
