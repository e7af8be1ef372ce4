-- session_step: unlocks mutexes of one session and returns their first waiters; then tries to lock
-- others, without waiting.
--
-- The mutexes are unlocked before the look at the queue, and each look is a statement of its own: a
-- waiter that joins the queue after that look finds the mutex free. Of the tables it writes only
-- those of `mark_dead` and `session_forget`.
--
-- Arguments   p_freed, p_ended: the names to unlock, each with the ticket of the hold that ends, or
--               null
--             p_wanted, p_tickets: the names to try, each with the ticket of its caller. The
--               session must not hold a name that it tries: it would be granted a second time
--             p_noted: whether the holder of any name to unlock was written
--             p_looks: whether to see first how full the server's table of locks is
-- Returns     answers: the number of advisory locks and their maximum, or 0 and 0 without a look;
--               for each name to unlock 1 if it was locked, or 0; for each name to try its token,
--               or 0 if it is not free or not the process's turn, or -1 if there is no room, or -2
--               as 0, if the ticket has no place in the queue
--             heads: for each name to try the ticket whose turn it was, or null if nobody waited
--             lefts: tickets that ended, of which a row may still be written
--             processes, tickets: the first waiters of the names that were unlocked
-- Locks       the advisory locks of the names; waits for none
-- Complexity  O(names + waiters passed over), and O(locks of the server) if it looks
-- Retry       after an error any of the names may be locked: the caller unlocks them all
CREATE OR REPLACE FUNCTION stanchion.session_step(
    p_namespace text, p_process uuid, p_freed text[], p_ended uuid[], p_wanted text[], p_tickets uuid[], p_noted boolean,
    p_looks boolean,
    OUT answers bigint[], OUT heads uuid[], OUT processes uuid[], OUT tickets uuid[], OUT lefts uuid[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count integer := 2;
    is_full boolean := false;
    is_turn boolean;
    id bigint;
    waiting bigint;
    head record;
BEGIN
    answers := ARRAY[0, 0];
    heads := array_fill(NULL::uuid, ARRAY[cardinality(p_wanted)]);
    processes := '{}';
    tickets := '{}';
    FOR i IN 1 .. cardinality(p_freed) LOOP
        count := count + 1;
        answers[count] := pg_advisory_unlock(stanchion.session_key(p_namespace, p_freed[i]))::integer;
    END LOOP;
    BEGIN
        FOR i IN 1 .. cardinality(p_freed) LOOP
            SELECT f.process, f.ticket INTO head FROM stanchion.session_freed(p_namespace, p_freed[i], p_ended[i]) f;
            IF head.ticket IS NOT NULL THEN
                processes := processes || head.process;
                tickets := tickets || head.ticket;
            END IF;
        END LOOP;
    EXCEPTION WHEN lock_not_available THEN
        -- Somebody has locked a table. The waiters ask by themselves.
    END;
    lefts := '{}';
    IF p_noted THEN
        lefts := stanchion.session_forget(p_namespace, p_freed, p_ended);
    END IF;
    IF p_looks THEN
        answers[1] := (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory');
        answers[2] := current_setting('max_locks_per_transaction')::bigint
            * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) / 2;
        is_full := answers[1] + cardinality(p_wanted) > answers[2];
    END IF;
    FOR i IN 1 .. cardinality(p_wanted) LOOP
        count := count + 1;
        IF is_full THEN
            answers[count] := -1;
            CONTINUE;
        END IF;
        -- While a transaction has its turn, nobody else has.
        SELECT x.id, x.waiting, x.used = 0 OR NOT EXISTS (
            SELECT FROM stanchion.holds h WHERE h.object = x.id AND h.expiry > stanchion.now())
        INTO id, waiting, is_turn FROM stanchion.objects x
        WHERE x.namespace = p_namespace AND x.kind = 'm' AND x.name = p_wanted[i];
        is_turn := coalesce(is_turn, true);
        IF is_turn AND waiting > 0 THEN
            SELECT f.process, f.ticket INTO head FROM stanchion.session_first(p_namespace, id, p_process, NULL) f;
            is_turn := head.process IS NULL OR head.process = p_process;
            heads[i] := head.ticket;
        END IF;
        IF is_turn AND pg_try_advisory_lock(stanchion.session_key(p_namespace, p_wanted[i])) THEN
            answers[count] := stanchion.session_token();
        ELSIF waiting > 0 AND EXISTS (
            SELECT FROM stanchion.waiters w WHERE w.object + 0 = id AND w.ticket = p_tickets[i])
        THEN
            answers[count] := 0;
        ELSE
            answers[count] := -2;
        END IF;
    END LOOP;
END
$$;
