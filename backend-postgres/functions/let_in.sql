-- let_in: lets the next waiters in: the first live ones that fit together, up to the first one that
-- does not fit.
--
-- Each of their processes is told once, and each waiter then claims its hold by `acquire`. What is
-- kept for those who have not come is in the row: see the columns `let_...`. A step that makes room
-- goes on behind those who were let in before. A poll makes all of it anew, from the front: then
-- the silent count no more, and those who came back do. Waiters larger than the limit are passed
-- over; they are told, too, round after round until none is left, in parts.
--
-- Arguments   p_own: the polling process, whose tickets are returned and not told, or null
--             p_anew: whether to begin at the front
--             p_tell: whether waiters of other processes of a mutex get hints
-- Returns     the row for `save`
--             ready: p_own's tickets that were let in, or are larger than the limit
--             soon: when the liveness of a waiter in front, of another process, ends; the time of
--               the call if more is to be done at once
--             others: whether a waiter of another process was let in
-- Locks       see `mark_dead`
-- Complexity  O(let in), of live waiters at most `most`. Where many silent ones stand in front,
--             also the time of `next_live`, for each stretch of them
CREATE OR REPLACE FUNCTION stanchion.let_in(
    INOUT o stanchion.objects, p_now bigint, p_asking uuid, p_own uuid, p_anew boolean, p_tell boolean,
    OUT ready uuid[], OUT soon bigint, OUT others boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Maximum number of live waiters that one call looks at, and of those that it tells.
    most CONSTANT integer := 250;
    tells CONSTANT integer := 250;
    many CONSTANT integer := 256;
    is_kept CONSTANT boolean := o.kind <> 'm';
    before CONSTANT bigint := o.let_up;
    room bigint := o.lim - o.used;
    up bigint := 0;
    kept bigint := 0;
    due bigint := 0;
    told integer := 0;
    looked integer := 0;
    chunk integer := 4;
    seen integer;
    passed integer := 0;
    behind bigint := 0;
    lost bigint[] := '{}';
    processes uuid[] := '{}';
    tickets uuid[] := '{}';
    w record;
    mine boolean;
    fits boolean;
    done boolean;
BEGIN
    ready := '{}';
    soon := 9007199254740992;
    others := false;
    IF o.waiting = 0 OR o.lim IS NULL THEN
        RETURN;
    END IF;
    IF NOT p_anew AND o.let_due > 0 THEN
        room := room - o.let_room;
        up := before;
        kept := o.let_room;
        due := o.let_due;
        behind := before;
    END IF;
    done := room <= 0;
    WHILE NOT done LOOP
        seen := 0;
        FOR w IN SELECT q.* FROM stanchion.each_waiter(o.namespace, o.id, p_now, p_asking, behind, chunk) q LOOP
            seen := seen + 1;
            behind := w.arrival;
            IF w.lost THEN
                lost := lost || w.arrival;
                passed := passed + 1;
                CONTINUE;
            ELSIF w.till <= p_now THEN
                passed := passed + 1;
                CONTINUE;
            END IF;
            looked := looked + 1;
            mine := w.process IS NOT DISTINCT FROM p_own;
            IF w.weight <= o.lim THEN
                fits := w.weight <= room AND (w.arrival <= before OR told < tells);
                IF NOT mine AND (fits OR w.weight > room) THEN
                    soon := least(soon, w.till);
                END IF;
                done := NOT fits;
                EXIT WHEN done;
                room := room - w.weight;
                kept := kept + w.weight;
                due := due + 1;
                others := others OR NOT mine;
                told := told + (w.arrival > before)::integer;
                IF mine THEN
                    ready := ready || w.ticket;
                ELSIF p_tell OR is_kept AND w.arrival > before THEN
                    processes := processes || w.process;
                    tickets := tickets || w.ticket;
                END IF;
            ELSIF mine THEN
                ready := ready || w.ticket;
            END IF;
            up := w.arrival;
            done := room <= 0 OR looked >= most;
            EXIT WHEN done;
        END LOOP;
        EXIT WHEN done OR seen < chunk;
        IF passed >= many THEN
            passed := 0;
            behind := stanchion.next_live(
                o.namespace, o.id, p_now, p_asking, stanchion.mark_dead(o.namespace, p_now), behind) - 1;
            EXIT WHEN behind IS NULL;
        END IF;
        chunk := least(chunk * 4, many);
    END LOOP;
    -- Where more were let in than one call looks at, they stay so.
    IF is_kept AND (looked < most OR up >= before) THEN
        -- Where nobody is due, whoever is silent in front may be first again.
        o.let_up := CASE WHEN due > 0 THEN up ELSE 0 END;
        o.let_room := kept;
        o.let_due := due;
        IF told > 0 THEN
            o.let_told := due;
        END IF;
    END IF;
    IF o.heaviest > o.lim THEN
        seen := 0;
        FOR w IN SELECT q.arrival, q.process, q.ticket, q.weight FROM stanchion.waiters q
                 WHERE q.object = o.id AND q.arrival > o.let_over ORDER BY q.arrival LIMIT most LOOP
            seen := seen + 1;
            o.let_over := w.arrival;
            o.let_most := greatest(o.let_most, w.weight);
            IF w.weight > o.lim AND w.process IS NOT DISTINCT FROM p_own THEN
                ready := ready || w.ticket;
            ELSIF w.weight > o.lim THEN
                processes := processes || w.process;
                tickets := tickets || w.ticket;
            END IF;
        END LOOP;
        IF seen < most THEN
            o.heaviest := o.let_most;
            o.let_over := 0;
            o.let_most := 0;
        ELSIF tickets <> '{}' OR ready <> '{}' THEN
            soon := p_now;
        END IF;
    END IF;
    IF lost <> '{}' THEN
        DELETE FROM stanchion.waiters q WHERE q.object = o.id AND q.arrival = ANY (lost);
        o.waiting := o.waiting - cardinality(lost);
        o.swept := 0;
    END IF;
    PERFORM stanchion.hint(processes, tickets);
END
$$;
