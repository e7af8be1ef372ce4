-- next_grants: finds the next grants: the first live waiters that fit together, up to the first
-- live one that does not fit.
--
-- Waiters larger than the limit get hints, too, and are passed over.
--
-- Arguments   p_own: the polling process, or null
--             p_tell: whether waiters of other processes get hints
-- Returns     ready: p_own's tickets that have no waiter of another process before them
--             soon: when the liveness of a waiter before them, of another process, ends
--             gone: the number of lost waiters that were passed, which are removed
--             heaviest: the row's bound, lowered if the whole queue was seen
--             others: whether a waiter of another process fits
-- Locks       see `mark_dead`
-- Complexity  O(front); O(live waiters) while a waiter larger than the limit may be queued. Where
--             many silent ones stand in front, also the time of `next_live`, for each stretch of
--             them
CREATE OR REPLACE FUNCTION stanchion.next_grants(
    o stanchion.objects, p_now bigint, p_asking uuid, p_own uuid, p_tell boolean,
    OUT ready uuid[], OUT soon bigint, OUT gone bigint, OUT heaviest bigint, OUT others boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    room bigint := o.lim - o.used;
    opened boolean := room > 0;
    most bigint := 0;
    many CONSTANT integer := 256;
    chunk integer := 4;
    seen integer;
    passed integer := 0;
    jumped boolean := false;
    behind bigint := 0;
    lost bigint[] := '{}';
    processes uuid[] := '{}';
    tickets uuid[] := '{}';
    w record;
    mine boolean;
    large boolean;
    done boolean := false;
BEGIN
    ready := '{}';
    soon := 9007199254740992;
    gone := 0;
    heaviest := o.heaviest;
    others := false;
    IF o.waiting = 0 OR (room <= 0 AND o.heaviest <= o.lim) THEN
        RETURN;
    END IF;
    LOOP
        seen := 0;
        FOR w IN SELECT q.* FROM stanchion.each_waiter(o.namespace, o.id, p_now, p_asking, behind, chunk) q LOOP
            seen := seen + 1;
            behind := w.arrival;
            IF w.lost THEN
                lost := lost || w.arrival;
                passed := passed + 1;
                CONTINUE;
            END IF;
            passed := passed + (w.till <= p_now)::integer;
            most := greatest(most, w.weight);
            mine := w.process IS NOT DISTINCT FROM p_own;
            large := w.weight > o.lim;
            IF w.till > p_now AND (large OR opened) THEN
                IF NOT large THEN
                    IF NOT mine THEN
                        soon := least(soon, w.till);
                    END IF;
                    opened := w.weight <= room;
                    IF opened THEN
                        room := room - w.weight;
                        others := others OR NOT mine;
                    END IF;
                END IF;
                IF large OR opened THEN
                    IF NOT mine THEN
                        IF p_tell THEN
                            processes := processes || w.process;
                            tickets := tickets || w.ticket;
                        END IF;
                    ELSIF large OR NOT others THEN
                        ready := ready || w.ticket;
                    END IF;
                END IF;
                opened := opened AND room > 0;
            END IF;
            done := NOT opened AND o.heaviest <= o.lim;
            EXIT WHEN done;
        END LOOP;
        EXIT WHEN done OR seen < chunk;
        IF passed >= many THEN
            jumped := true;
            passed := 0;
            behind := stanchion.next_live(
                o.namespace, o.id, p_now, p_asking, stanchion.mark_dead(o.namespace, p_now), behind) - 1;
            EXIT WHEN behind IS NULL;
        END IF;
        chunk := least(chunk * 4, many);
    END LOOP;
    IF NOT done AND NOT jumped THEN
        heaviest := least(heaviest, most);
    END IF;
    gone := cardinality(lost);
    IF gone > 0 THEN
        DELETE FROM stanchion.waiters q WHERE q.object = o.id AND q.arrival = ANY (lost);
    END IF;
    PERFORM stanchion.hint(processes, tickets);
END
$$;
