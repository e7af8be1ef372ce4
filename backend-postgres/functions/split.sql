-- split: splits holds of weight 1 off a hold, with the same token, and sets all their leases anew.
--
-- Arguments   p_tickets: n tickets, 500 at most
-- Returns     false if the hold is gone or weighs less than n, or if one of the tickets was
--             cancelled before
-- Locks       the object
-- Complexity  O(n · log holds)
-- Retry       finds holds under the new tickets, and sets the leases anew
CREATE OR REPLACE FUNCTION stanchion.split(
    p_namespace text, p_tokens bigint, p_kind text, p_name text, p_from uuid, p_lease bigint, p_tickets uuid[]
) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o stanchion.objects;
    clock bigint;
    before bigint;
    hold stanchion.holds;
    changed bigint := 0;
    gone bigint;
    longest bigint := p_lease;
BEGIN
    PERFORM stanchion.enter();
    o := stanchion.claim(p_namespace, p_kind, p_name, NULL);
    IF o.id IS NULL THEN
        RETURN false;
    END IF;
    clock := stanchion.now();
    before := o.used;
    IF o.next <= clock THEN
        o := stanchion.remove_expired(o, clock, 1);
    END IF;
    SELECT h.* INTO hold FROM stanchion.holds h
    WHERE h.object + 0 = o.id AND h.ticket = p_from AND h.expiry + 0 > clock;
    IF NOT (o.tombstones_until > clock AND EXISTS (
        SELECT FROM stanchion.tombstones t
        WHERE t.object + 0 = o.id AND t.ticket = ANY (p_tickets) AND t.expiry + 0 > clock))
    THEN
        UPDATE stanchion.holds h SET expiry = clock + p_lease
        WHERE h.object + 0 = o.id AND h.ticket = ANY (p_tickets) AND h.expiry + 0 > clock;
        GET DIAGNOSTICS changed = ROW_COUNT;
        IF changed > 0 THEN
            UPDATE stanchion.holds h SET expiry = clock + p_lease
            WHERE h.object + 0 = o.id AND h.ticket = p_from AND h.expiry + 0 > clock;
        ELSIF hold.weight >= cardinality(p_tickets) THEN
            changed := cardinality(p_tickets);
            -- Those of a first try that have ended, and were not removed yet.
            WITH ended AS (
                DELETE FROM stanchion.holds h WHERE h.object + 0 = o.id AND h.ticket = ANY (p_tickets)
                RETURNING h.weight
            )
            SELECT coalesce(sum(e.weight), 0)::bigint INTO gone FROM ended e;
            o.used := o.used - gone;
            IF o.kind = 'w' THEN
                o.expired := o.expired + gone;
            END IF;
            IF hold.weight > changed THEN
                UPDATE stanchion.holds h SET expiry = clock + p_lease, weight = h.weight - changed
                WHERE h.object + 0 = o.id AND h.ticket = p_from;
            ELSE
                DELETE FROM stanchion.holds h WHERE h.object + 0 = o.id AND h.ticket = p_from;
                longest := stanchion.leave_tombstones(
                    o.id, clock, ARRAY[p_from], ARRAY[greatest(p_lease, hold.expiry - clock)], NULL);
                o.tombstones_until := greatest(o.tombstones_until, clock + longest);
            END IF;
            INSERT INTO stanchion.holds (object, ticket, weight, expiry, granted, token, label)
            SELECT o.id, e.ticket, 1, clock + p_lease, hold.granted, hold.token, hold.label
            FROM unnest(p_tickets) e (ticket);
        END IF;
        IF changed > 0 THEN
            o.next := least(o.next, clock + p_lease);
        END IF;
    END IF;
    IF o.used < before THEN
        o := stanchion.wake(o, clock, NULL);
    END IF;
    PERFORM stanchion.save(o, changed > 0 OR o.used < before, clock, CASE WHEN changed > 0 THEN longest ELSE 0 END,
        p_tokens);
    RETURN changed > 0;
END
$$;
