-- attach: moves a detached hold to another ticket. The token, the weight and the time of the grant
-- stay.
--
-- Arguments   p_label: the new label; null keeps the label of the hold
-- Returns     token, null if the hold is gone; weight; epoch, of a wait group
-- Locks       the object
-- Complexity  O(log holds)
-- Retry       finds the hold under the new ticket, sets its lease anew, and gives the same answer
CREATE OR REPLACE FUNCTION stanchion.attach(
    p_namespace text, p_tokens bigint, p_kind text, p_name text, p_from uuid, p_to uuid, p_lease bigint, p_label text,
    OUT token bigint, OUT weight bigint, OUT epoch bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o stanchion.objects;
    clock bigint;
    before bigint;
    left_over bigint;
    longest bigint := p_lease;
BEGIN
    PERFORM stanchion.enter();
    o := stanchion.claim(p_namespace, p_kind, p_name, NULL);
    IF o.id IS NULL THEN
        RETURN;
    END IF;
    clock := stanchion.now();
    before := o.used;
    IF o.next <= clock THEN
        o := stanchion.remove_expired(o, clock, 1);
    END IF;
    IF o.tombstones_until <= clock OR NOT EXISTS (
        SELECT FROM stanchion.tombstones t WHERE t.object + 0 = o.id AND t.ticket = p_to AND t.expiry + 0 > clock)
    THEN
        UPDATE stanchion.holds h SET expiry = clock + p_lease
        WHERE h.object + 0 = o.id AND h.ticket = p_to AND h.expiry + 0 > clock
        RETURNING h.token, h.weight INTO token, weight;
        IF token IS NULL THEN
            SELECT h.expiry - clock INTO left_over FROM stanchion.holds h
            WHERE h.object + 0 = o.id AND h.ticket = p_from AND h.expiry + 0 > clock;
            UPDATE stanchion.holds h
            SET ticket = p_to, expiry = clock + p_lease, label = coalesce(p_label, h.label)
            WHERE h.object + 0 = o.id AND h.ticket = p_from AND h.expiry + 0 > clock
            RETURNING h.token, h.weight INTO token, weight;
            IF token IS NOT NULL THEN
                longest := stanchion.leave_tombstones(o.id, clock, ARRAY[p_from], ARRAY[greatest(p_lease, left_over)],
                    NULL);
                o.tombstones_until := greatest(o.tombstones_until, clock + longest);
            END IF;
        END IF;
    END IF;
    IF token IS NOT NULL THEN
        epoch := CASE WHEN o.kind = 'w' THEN o.epoch ELSE 0 END;
        o.next := least(o.next, clock + p_lease);
    END IF;
    IF o.used < before THEN
        o := stanchion.wake(o, clock, NULL);
    END IF;
    PERFORM stanchion.save(o, token IS NOT NULL OR o.used < before, clock, longest, p_tokens);
END
$$;
