-- acquire: grants, queues or refuses requests; first come, first served among live waiters.
--
-- Arguments   p_tokens, p_state: the retention of tokens, and of other state
--             p_kinds, p_names: the objects in the order of kind and name, each with the next
--               p_counts of the entries below; the tickets of an object are distinct (if one occurs
--               twice, the object is listed twice)
--             p_checks: `r` refuse another limit, `a` adopt or follow, `p` replace; `t` a mutex,
--               until a transaction has it; `s` a place in the queue of a mutex, which is never
--               granted here
--             p_queue, p_bounds: whether to queue, and the bound of the queue or null
-- Returns     for each entry a code, and with some codes the limit, the epoch or the token:
--             0 granted: token, limit, epoch (of a wait group)
--             1 waiting: limit, epoch; epoch is 0 if not queued
--             2 cancelled before
--             3 limits differ: limit
--             4 too large: limit
--             5 the queue is at its bound
-- Locks       the objects, in order; then see `mark_live`
-- Complexity  O(entries · log holds); with a queue O(log waiters + waiters passed over)
-- Retry       the ticket names the acquisition: a hold gets its lease anew and keeps its token, a
--             waiter keeps its place
CREATE OR REPLACE FUNCTION stanchion.acquire(
    p_namespace text, p_process uuid, p_tokens bigint, p_state bigint,
    p_kinds text[], p_names text[], p_counts integer[],
    p_tickets uuid[], p_weights bigint[], p_leases bigint[], p_limits bigint[], p_checks text[],
    p_queue boolean[], p_bounds bigint[], p_labels text[],
    OUT codes integer[], OUT tokens bigint[], OUT limits bigint[], OUT epochs bigint[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count CONSTANT integer := cardinality(p_names);
    claimed stanchion.objects[];
    patience text;
    hurried CONSTANT timestamptz := statement_timestamp() + interval '20 ms';
    o stanchion.objects;
    clock bigint;
    before bigint;
    woken boolean;
    size integer;
    first integer := 1;
    last integer;
    lim bigint;
    total bigint;
    shortest bigint;
    longest bigint;
    tickets uuid[] := p_tickets;
    weights bigint[] := p_weights;
    leases bigint[] := p_leases;
    limited bigint[] := p_limits;
    checks text[] := p_checks;
    labels text[] := p_labels;
    -- What was granted without the loop, and how many of it the loop has passed.
    free_entries integer[] := '{}';
    free_tokens bigint[];
    free_limits bigint[];
    passed integer := 0;
    r record;
BEGIN
    PERFORM stanchion.enter();
    patience := current_setting('lock_timeout');
    -- For a single object the loop is the shorter way.
    IF count > 1 AND cardinality(p_tickets) = count THEN
        SELECT f.granted, f.tokens, f.limits INTO free_entries, free_tokens, free_limits
        FROM stanchion.acquire_free(p_namespace, p_tokens, p_state, p_kinds, p_names,
            p_tickets, p_weights, p_leases, p_limits, p_checks, p_labels) f;
        IF cardinality(free_entries) = count THEN
            codes := array_fill(0, ARRAY[count]);
            tokens := free_tokens;
            limits := free_limits;
            epochs := array_fill(0::bigint, ARRAY[count]);
            RETURN;
        END IF;
    END IF;
    FOR i IN 1 .. count LOOP
        IF free_entries[passed + 1] = i THEN
            passed := passed + 1;
        ELSE
            claimed[i] := stanchion.claim(p_namespace, p_kinds[i], p_names[i], p_tokens);
            IF clock_timestamp() > hurried THEN
                PERFORM stanchion.hurry(patience);
            END IF;
        END IF;
    END LOOP;
    clock := stanchion.now();
    passed := 0;
    codes := '{}';
    tokens := '{}';
    limits := '{}';
    epochs := '{}';
    FOR i IN 1 .. count LOOP
        size := p_counts[i];
        last := first + size - 1;
        IF free_entries[passed + 1] = i THEN
            passed := passed + 1;
            codes := codes || 0;
            tokens := tokens || free_tokens[passed];
            limits := limits || free_limits[passed];
            epochs := epochs || 0::bigint;
            first := last + 1;
            CONTINUE;
        END IF;
        IF count > 1 THEN
            tickets := p_tickets[first:last];
            weights := p_weights[first:last];
            leases := p_leases[first:last];
            limited := p_limits[first:last];
            checks := p_checks[first:last];
            labels := p_labels[first:last];
        END IF;
        -- The row as it is after the entry before it, if that is one of the same object.
        IF i = 1 OR claimed[i].id IS NULL OR claimed[i - 1].id IS DISTINCT FROM claimed[i].id THEN
            o := claimed[i];
        END IF;
        before := o.used;
        IF o.next <= clock THEN
            o := stanchion.remove_expired(o, clock, count);
        END IF;
        IF o.next <= clock THEN
            PERFORM stanchion.untidy();
        END IF;
        woken := o.used < before;
        IF o.keyed AND o.used = 0 THEN
            -- A transaction may have the mutex. If none does, none gets it before the commit of
            -- this step.
            o.keyed := NOT pg_try_advisory_xact_lock(stanchion.session_key(p_namespace, o.name));
        END IF;
        IF size = 1 THEN
            total := weights[1];
            shortest := leases[1];
            longest := leases[1];
        ELSE
            SELECT sum(e.weight)::bigint, min(e.lease), max(e.lease) INTO total, shortest, longest
            FROM unnest(weights, leases) e (weight, lease);
        END IF;
        lim := o.lim;
        IF lim IS NULL OR (o.used = 0 AND o.waiting = 0 AND clock - o.touched > p_state) THEN
            lim := limited[1];
        END IF;
        IF o.waiting = 0 AND o.used + total <= lim AND (NOT o.keyed OR 't' = ALL (checks)) AND NOT 's' = ANY (checks)
            AND (lim = ALL (limited) OR 'a' = ALL (checks))
            AND NOT (o.used > 0 AND EXISTS (
                SELECT FROM stanchion.holds h WHERE h.object + 0 = o.id AND h.ticket = ANY (tickets)))
            AND NOT (o.tombstones_until > clock AND EXISTS (
                SELECT FROM stanchion.tombstones t WHERE t.object + 0 = o.id AND t.ticket = ANY (tickets)))
        THEN
            -- All entries are granted; none of their tickets has a row.
            IF o.kind = 'w' AND o.used = 0 THEN
                o.generation := o.generation + 1;
            END IF;
            o.token := greatest(o.token + 1, clock);
            INSERT INTO stanchion.holds (object, ticket, weight, expiry, granted, token, label)
            SELECT o.id, e.ticket, e.weight, clock + e.lease, clock, o.token + e.at - 1, e.label
            FROM unnest(tickets, weights, leases, labels) WITH ORDINALITY e (ticket, weight, lease, label, at);
            codes := codes || array_fill(0, ARRAY[size]);
            tokens := tokens || ARRAY(SELECT generate_series(o.token, o.token + size - 1));
            limits := limits || array_fill(lim, ARRAY[size]);
            epochs := epochs || array_fill(CASE WHEN o.kind = 'w' THEN o.epoch ELSE 0 END, ARRAY[size]);
            o.lim := lim;
            o.token := o.token + size - 1;
            o.used := o.used + total;
            o.next := least(o.next, clock + shortest);
        ELSE
            SELECT e.* INTO r FROM stanchion.acquire_each(o, clock, p_process, p_state,
                tickets, weights, leases, limited, checks, p_queue[first:last], p_bounds[first:last], labels) e;
            o := r.o;
            woken := woken OR r.woken;
            longest := r.leased;
            codes := codes || r.codes;
            tokens := tokens || r.tokens;
            limits := limits || r.limits;
            epochs := epochs || r.epochs;
        END IF;
        IF woken AND o.waiting > 0 THEN
            o := stanchion.wake(o, clock, p_process);
        END IF;
        PERFORM stanchion.save(o, true, clock, longest, p_tokens);
        first := last + 1;
    END LOOP;
END
$$;
