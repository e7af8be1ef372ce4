-- session_leave: removes the places of waiters whose session has locked the mutex.
--
-- Not durable: after a crash of the server no session has a lock, and the place of a ticket that no
-- process has is given up again.
--
-- Arguments   p_names, p_tickets: the mutexes in order, each with the ticket of the waiter
--             p_wakes: for each, whether it is free by now, so that its next waiter gets a hint:
--               while the place was there, the try of the next one was in vain
--             p_lasting: for each, how long a tombstone stays, 0 for none: a copy of the request
--               that joined the queue may be under way
--             p_waits: whether to wait for rows that another transaction has locked; otherwise
--               their places stay
-- Returns     for each, whether its place is gone
-- Locks       the objects, in order
-- Complexity  O(names · log waiters)
-- Retry       changes only the times of the tombstones
CREATE OR REPLACE FUNCTION stanchion.session_leave(
    p_namespace text, p_tokens bigint, p_names text[], p_tickets uuid[], p_wakes boolean[], p_lasting bigint[], p_waits boolean
) RETURNS boolean[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    claimed stanchion.objects[];
    o stanchion.objects;
    clock bigint;
    gone bigint;
    has_left boolean[] := '{}';
BEGIN
    PERFORM stanchion.enter();
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR i IN 1 .. cardinality(p_names) LOOP
        IF p_waits THEN
            claimed[i] := stanchion.claim(p_namespace, 'm', p_names[i], p_tokens);
        ELSE
            SELECT x.* INTO o FROM stanchion.objects x
            WHERE x.namespace = p_namespace AND x.kind = 'm' AND x.name = p_names[i]
            FOR UPDATE SKIP LOCKED;
            claimed[i] := o;
        END IF;
    END LOOP;
    clock := stanchion.now();
    FOR i IN 1 .. cardinality(p_names) LOOP
        IF i = 1 OR p_names[i] <> p_names[i - 1] THEN
            o := claimed[i];
        END IF;
        has_left[i] := o.id IS NOT NULL;
        CONTINUE WHEN o.id IS NULL;
        DELETE FROM stanchion.waiters w WHERE w.object + 0 = o.id AND w.ticket = p_tickets[i];
        GET DIAGNOSTICS gone = ROW_COUNT;
        o.waiting := o.waiting - gone;
        o.touched := clock;
        IF p_lasting[i] > 0 THEN
            PERFORM stanchion.leave_tombstones(o.id, clock, p_tickets[i:i], p_lasting[i:i], NULL);
            o.tombstones_until := greatest(o.tombstones_until, clock + p_lasting[i]);
        END IF;
        IF p_wakes[i] THEN
            o := stanchion.wake(o, clock, NULL);
        END IF;
        PERFORM stanchion.save(o, true, clock, p_lasting[i], p_tokens);
    END LOOP;
    RETURN has_left;
END
$$;
