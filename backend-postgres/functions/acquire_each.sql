-- acquire_each: executes the entries of one object one after the other, if they cannot all be
-- granted at once.
--
-- The rows of the tickets are read with one statement for each table. The results are written
-- together: before a look at the queue, and at the end.
--
-- Arguments   the row of the object; the others as in `acquire`; the tickets are distinct
-- Returns     codes, tokens, limits, epochs: the answers, as in `acquire`
--             woken, leased: whether a waiter may fit now, and the longest lease that was set
-- Complexity  O(entries · log holds); with a queue O(log waiters + waiters passed over)
CREATE OR REPLACE FUNCTION stanchion.acquire_each(
    INOUT o stanchion.objects, p_now bigint, p_process uuid, p_state bigint,
    p_tickets uuid[], p_weights bigint[], p_leases bigint[], p_limits bigint[], p_checks text[],
    p_queue boolean[], p_bounds bigint[], p_labels text[],
    OUT codes integer[], OUT tokens bigint[], OUT limits bigint[], OUT epochs bigint[],
    OUT woken boolean, OUT leased bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    size CONSTANT integer := cardinality(p_tickets);
    pause CONSTANT bigint := 1000000;
    held bigint[] := array_fill(NULL::bigint, ARRAY[size]);
    has_tombstone boolean[] := array_fill(false, ARRAY[size]);
    places bigint[] := array_fill(NULL::bigint, ARRAY[size]);
    placed integer := 0;
    -- The live waiters behind those who were let in, in order, at most one more than may leave;
    -- null if unknown. `at` is the index of the first one.
    line bigint[];
    at integer := 1;
    heard boolean := false;
    counted boolean := false;
    liveness CONSTANT bigint := 1000000;
    was_let_in boolean;
    is_anew boolean := false;
    behind_silent boolean;
    lim bigint;
    replaced bigint;
    weight bigint;
    place bigint;
    gone bigint;
    fresh boolean;
    front boolean;
    -- The results to write, by the numbers of the entries.
    granted integer[] := '{}';
    joined integer[] := '{}';
    renewed integer[] := '{}';
    left_places bigint[] := '{}';
    arrivals bigint[] := array_fill(NULL::bigint, ARRAY[size]);
    r record;
BEGIN
    woken := false;
    leased := 0;
    codes := array_fill(0, ARRAY[size]);
    tokens := array_fill(0::bigint, ARRAY[size]);
    limits := array_fill(0::bigint, ARRAY[size]);
    epochs := array_fill(CASE WHEN o.kind = 'w' THEN o.epoch ELSE 0 END, ARRAY[size]);
    IF o.used > 0 THEN
        FOR r IN SELECT array_position(p_tickets, h.ticket) AS k, h.token
                 FROM stanchion.holds h WHERE h.object + 0 = o.id AND h.ticket = ANY (p_tickets) LOOP
            held[r.k] := r.token;
        END LOOP;
    END IF;
    IF o.tombstones_until > p_now THEN
        FOR r IN SELECT array_position(p_tickets, t.ticket) AS k FROM stanchion.tombstones t
                 WHERE t.object + 0 = o.id AND t.ticket = ANY (p_tickets) AND t.expiry + 0 > p_now LOOP
            has_tombstone[r.k] := true;
        END LOOP;
    END IF;
    IF o.waiting > 0 THEN
        FOR r IN SELECT array_position(p_tickets, w.ticket) AS k, w.arrival
                 FROM stanchion.waiters w WHERE w.object + 0 = o.id AND w.ticket = ANY (p_tickets) LOOP
            places[r.k] := r.arrival;
            placed := placed + 1;
        END LOOP;
        -- Of a process that was silent, it is not known who was let in.
        IF placed > 0 AND o.let_up > 0 AND NOT EXISTS (
            SELECT FROM stanchion.processes p WHERE p.namespace = o.namespace AND p.process = p_process
            AND p.heard BETWEEN p_now - liveness AND p_now + liveness)
        THEN
            o := stanchion.let_anew(o);
            woken := true;
        END IF;
    END IF;
    FOR k IN 1 .. size LOOP
        IF has_tombstone[k] THEN
            codes[k] := 2;
            CONTINUE;
        END IF;
        leased := greatest(leased, p_leases[k]);
        IF held[k] IS NOT NULL THEN
            renewed := renewed || k;
            o.next := least(o.next, p_now + p_leases[k]);
            tokens[k] := held[k];
            limits[k] := o.lim;
            CONTINUE;
        END IF;
        place := places[k];
        weight := p_weights[k];
        replaced := NULL;
        -- A queue of dead waiters only may be empty after `count_silent`.
        IF o.waiting > 0 AND o.used = 0 AND p_now - o.touched > p_state AND NOT counted THEN
            counted := true;
            o := stanchion.count_silent(o, p_now, p_process);
            line := NULL;
        END IF;
        lim := o.lim;
        fresh := lim IS NULL OR (o.used = 0 AND o.waiting = 0 AND p_now - o.touched > p_state);
        IF fresh THEN
            lim := p_limits[k];
        ELSIF place IS NULL AND lim <> p_limits[k] THEN
            -- A ticket in the queue was compared when it joined.
            IF p_checks[k] = 'r' THEN
                codes[k] := 3;
                limits[k] := lim;
                CONTINUE;
            ELSIF p_checks[k] = 'p' THEN
                -- A refused request changes nothing.
                IF weight > p_limits[k] THEN
                    codes[k] := 4;
                    limits[k] := p_limits[k];
                    CONTINUE;
                END IF;
                replaced := lim;
                lim := p_limits[k];
                o := stanchion.let_anew(o);
                o.lim := lim;
                woken := true;
                line := NULL;
            END IF;
        END IF;
        limits[k] := lim;
        front := weight <= lim AND o.used + weight <= lim AND (NOT o.keyed OR p_checks[k] = 't')
            AND p_checks[k] <> 's';
        was_let_in := coalesce(place <= o.let_up, false) AND weight <= lim;
        -- Whoever was let in comes in; anybody else beside all of them, and in its turn.
        IF front AND o.waiting > 0 AND NOT was_let_in THEN
            behind_silent := o.used + o.let_room + weight > lim AND NOT is_anew AND coalesce((
                SELECT q.till <= p_now FROM stanchion.each_waiter(o.namespace, o.id, p_now, p_process, 0, 1) q), true);
            IF behind_silent OR line IS NULL THEN
                IF joined <> '{}' OR left_places <> '{}' THEN
                    PERFORM stanchion.acquire_flush(o.id, p_now, p_process, p_tickets, p_weights, p_leases,
                        '{}', tokens, p_labels, joined, arrivals, '{}', left_places);
                    joined := '{}';
                    left_places := '{}';
                END IF;
            END IF;
            IF behind_silent THEN
                -- What was kept for silent ones in front is free.
                is_anew := true;
                line := NULL;
                SELECT t.* INTO r FROM stanchion.let_in(o, p_now, p_process, NULL, true, false) t;
                o := r.o;
                was_let_in := coalesce(place <= o.let_up, false);
            END IF;
            front := was_let_in OR o.used + o.let_room + weight <= lim;
            IF front AND NOT was_let_in THEN
                IF line IS NULL THEN
                    at := 1;
                    SELECT f.line, f.gone INTO line, gone
                    FROM stanchion.front(o, p_now, p_process, placed + 1, o.let_up) f;
                    IF gone > 0 THEN
                        o.waiting := o.waiting - gone;
                        o.swept := 0;
                    END IF;
                END IF;
                front := line[at] IS NULL OR place <= line[at];
            END IF;
        END IF;
        IF front THEN
            IF o.kind = 'w' AND o.used = 0 THEN
                o.generation := o.generation + 1;
            END IF;
            o.lim := lim;
            o.used := o.used + weight;
            o.token := greatest(o.token + 1, p_now);
            o.next := least(o.next, p_now + p_leases[k]);
            tokens[k] := o.token;
            granted := granted || k;
        ELSIF weight > lim THEN
            codes[k] := 4;
        ELSE
            codes[k] := 1;
            epochs[k] := 0;
        END IF;
        IF codes[k] = 1 AND p_queue[k] THEN
            epochs[k] := o.epoch;
            IF NOT heard THEN
                heard := true;
                PERFORM stanchion.mark_live(o.namespace, p_process, p_now,
                    (SELECT max(l.lease) FROM unnest(p_leases) l (lease)) + p_state);
            END IF;
            IF place IS NULL THEN
                IF o.waiting >= p_bounds[k] THEN
                    IF NOT counted AND (o.swept_up > 0 OR abs(p_now - o.swept) >= pause) THEN
                        counted := true;
                        o := stanchion.count_silent(o, p_now, p_process);
                    END IF;
                    IF o.waiting - o.dead >= p_bounds[k] THEN
                        codes[k] := 5;
                        IF replaced IS NOT NULL THEN
                            o.lim := replaced;
                            line := NULL;
                        END IF;
                        CONTINUE;
                    END IF;
                END IF;
                IF o.waiting = 0 THEN
                    o := stanchion.let_anew(o);
                END IF;
                o.longest := greatest(CASE WHEN o.waiting > 0 THEN o.longest END, p_leases[k]);
                o.heaviest := greatest(CASE WHEN o.waiting > 0 THEN o.heaviest END, weight);
                -- Whoever queues for a session's lock may be the first of all.
                o.lim := coalesce(o.lim, lim);
                o.waiting := o.waiting + 1;
                o.arrival := o.arrival + 1;
                arrivals[k] := o.arrival;
                joined := joined || k;
                -- A line that was cut does not become empty: only tickets of this batch leave it.
                IF cardinality(line) <= placed THEN
                    line := line || o.arrival;
                END IF;
            END IF;
        ELSIF place IS NOT NULL THEN
            left_places := left_places || place;
            o.waiting := o.waiting - 1;
            IF was_let_in THEN
                o.let_room := o.let_room - weight;
                o.let_due := o.let_due - 1;
                IF o.let_due <= 0 THEN
                    o := stanchion.let_anew(o);
                    line := NULL;
                END IF;
            END IF;
            -- Of those who were let in, the one that makes them half lets the next ones in.
            woken := woken OR NOT was_let_in OR codes[k] <> 0 OR o.let_due * 2 <= o.let_told;
            IF place = line[at] THEN
                at := at + 1;
            ELSIF place > line[at] THEN
                line := NULL;
            END IF;
        END IF;
    END LOOP;
    PERFORM stanchion.acquire_flush(o.id, p_now, p_process, p_tickets, p_weights, p_leases,
        granted, tokens, p_labels, joined, arrivals, renewed, left_places);
END
$$;
