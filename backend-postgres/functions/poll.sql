-- poll: marks the calling process as live, and returns which of its waiters can be granted next.
--
-- Arguments   p_kinds, p_names: the objects, distinct, in the order of kind and name
-- Returns     epochs: when each record was made; 0 if there is none
--             nexts: time until the next hold ends, or the liveness of a waiter of another process
--               in front (-1: neither)
--             firsts: whether the first live waiter is of the process (one of the first, where
--               sessions keep the mutex), or another process is about to take the free room
--             ready, counts: the tickets of the process's waiters that can be granted next, object
--               by object, and their numbers
-- Locks       the objects of which something has ended, or whose first waiter fits, in order; see
--             `mark_live`. All others are read only, as are mutexes that sessions keep: whether
--             those are free is not seen here
-- Complexity  O(log waiters + waiters passed over or served) for each object
CREATE OR REPLACE FUNCTION stanchion.poll(
    p_namespace text, p_process uuid, p_tokens bigint, p_state bigint, p_kinds text[], p_names text[],
    OUT epochs bigint[], OUT nexts bigint[], OUT firsts boolean[], OUT counts integer[], OUT ready uuid[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    never CONSTANT bigint := 9007199254740992;
    liveness CONSTANT bigint := 1000000;
    seen stanchion.objects[];
    claimed boolean[];
    -- When the waiter in front, which does not fit, falls silent, if it is another process's.
    blocked bigint[];
    -- The waiter in front of a mutex that sessions keep, if it is the process's.
    heads uuid[];
    by_session CONSTANT boolean := coalesce('session' = (
        SELECT n.mutex_mode FROM stanchion.namespaces n WHERE n.namespace = p_namespace), false);
    front record;
    o stanchion.objects;
    clock bigint := stanchion.now();
    before stanchion.objects;
    longest bigint := 0;
    next bigint;
    others boolean;
    taken boolean;
    mine integer;
    outcome record;
BEGIN
    PERFORM stanchion.enter();
    FOR i IN 1 .. cardinality(p_names) LOOP
        SELECT x.* INTO o FROM stanchion.objects x
        WHERE x.namespace = p_namespace AND x.kind = p_kinds[i]::"char" AND x.name = p_names[i];
        -- What changes nothing needs no lock: a renewal would wait for it.
        claimed[i] := o.lim IS NOT NULL AND (
            o.next <= clock OR o.heaviest > o.lim OR o.expires < clock + o.longest + p_tokens);
        -- As long as a transaction has a mutex, nobody fits; a turn is granted all the same, but
        -- asks by itself.
        taken := o.keyed AND o.used = 0 AND EXISTS (
            SELECT FROM stanchion.session_holders(p_namespace, o.name) h WHERE h.holds);
        IF NOT claimed[i] AND o.used < o.lim AND taken IS NOT TRUE THEN
            SELECT q.process, q.ticket, q.weight, q.arrival, coalesce(p.heard, q.since) AS heard INTO front
            FROM stanchion.waiters q
            LEFT JOIN stanchion.processes p ON p.namespace = p_namespace AND p.process = q.process
            WHERE q.object = o.id ORDER BY q.arrival LIMIT 1;
            -- A live one that does not fit keeps all others waiting.
            claimed[i] := front.process IS NOT NULL AND (
                (front.weight <= o.lim - o.used AND NOT (by_session AND o.kind = 'm'))
                -- It was silent when those behind it were let in.
                OR front.arrival <= o.let_up
                -- It may be heard after the clock was read.
                OR (front.process <> p_process
                    AND front.heard NOT BETWEEN clock - liveness AND clock + liveness));
            IF NOT claimed[i] AND front.process <> p_process THEN
                blocked[i] := front.heard + liveness;
            ELSIF NOT claimed[i] AND by_session AND o.kind = 'm' THEN
                heads[i] := front.ticket;
            END IF;
        END IF;
        IF claimed[i] THEN
            o := stanchion.claim(p_namespace, p_kinds[i], p_names[i], NULL);
        END IF;
        seen[i] := o;
        longest := greatest(longest, o.longest);
    END LOOP;
    clock := stanchion.now();
    PERFORM stanchion.mark_live(p_namespace, p_process, clock, longest + p_state);
    epochs := '{}';
    nexts := '{}';
    firsts := '{}';
    counts := '{}';
    ready := '{}';
    FOR i IN 1 .. cardinality(p_names) LOOP
        o := seen[i];
        IF o.lim IS NULL THEN
            epochs := epochs || coalesce(o.epoch, 0);
            nexts := nexts || (-1)::bigint;
            firsts := firsts || true;
            counts := counts || 0;
            CONTINUE;
        END IF;
        before := o;
        next := least(o.next, blocked[i]);
        others := false;
        mine := 0;
        IF heads[i] IS NOT NULL THEN
            mine := 1;
            ready := ready || heads[i];
        ELSIF claimed[i] THEN
            IF o.next <= clock THEN
                o := stanchion.remove_expired(o, clock, cardinality(p_names));
            END IF;
            SELECT t.* INTO outcome
            FROM stanchion.let_in(o, clock, p_process, p_process, true, o.used < before.used) t;
            o := outcome.o;
            next := least(o.next, outcome.soon);
            others := outcome.others;
            mine := cardinality(outcome.ready);
            ready := ready || outcome.ready;
            IF o IS DISTINCT FROM before OR o.waiting > 0 THEN
                PERFORM stanchion.save(o, o IS DISTINCT FROM before, clock, o.longest, p_tokens);
            END IF;
        END IF;
        epochs := epochs || o.epoch;
        nexts := nexts || CASE WHEN next < never THEN greatest(next - clock, 0) ELSE -1 END;
        counts := counts || mine;
        -- Behind several silent waiters, it may be. Nobody is told when a session ends: whoever is
        -- next but one or two asks as often, since those before it may die in a row.
        firsts := firsts || (others OR coalesce((
            SELECT bool_or(f.process = p_process) FROM (
                SELECT q.process FROM stanchion.each_waiter(p_namespace, o.id, clock, p_process, 0, 4) q
                WHERE q.till > clock ORDER BY q.arrival LIMIT CASE WHEN by_session AND o.kind = 'm' THEN 4 ELSE 1 END) f), true));
    END LOOP;
END
$$;
