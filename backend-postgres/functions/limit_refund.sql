-- limit_refund: cancels reservations, and returns how much each gave back.
--
-- The tokens that a ticket gave back are kept for 60 s. An unknown ticket is kept, too: its reserve
-- may still be under way and is refused then (C4).
--
-- A reservation gives back the part of its cost that was not taken after it. If anything was taken
-- after it, it gives back at most the burst less the tokens that rounding a time up to the next µs
-- can have left over: the reservations after it keep their times (L1, L7).
--
-- Arguments   namespace, retention in µs; names, distinct, in the order of their bytes; the number
--             of tickets of each name; the tickets, name by name
-- Returns     the refund of each ticket, in tokens
-- Locks       rows of `limiters`, in the order of the names; then, under these, of `limit_tickets`
-- Complexity  O(log tickets) each
-- Retry       gets the answer of the first time, for 60 s
CREATE OR REPLACE FUNCTION stanchion.limit_refund(
    in_namespace text, in_retention bigint, in_names text[], in_counts integer[], in_tickets uuid[]
) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    rows stanchion.limiters[];
    moment bigint;
    l stanchion.limiters;
    known record;
    given bigint;
    behind bigint;
    refunds bigint[];
    first integer := 1;
BEGIN
    rows := stanchion.limit_lock(in_namespace, in_names, true);
    moment := stanchion.now();
    FOR i IN 1 .. cardinality(in_names) LOOP
        l := stanchion.limit_load(rows[i], moment, cardinality(in_names));
        FOR k IN first .. first + in_counts[i] - 1 LOOP
            SELECT t.until, t.cost, t.mark, t.refund INTO known
            FROM stanchion.limit_tickets AS t
            WHERE t.limiter = l.id AND t.ticket = in_tickets[k] AND t.until > l.last;
            IF known.refund IS NOT NULL THEN
                refunds[k] := known.refund;
                CONTINUE;
            END IF;
            behind := greatest(l.taken - known.mark, 0);
            IF known.until IS NULL THEN
                given := 0;
            ELSIF behind = 0 THEN
                given := known.cost;
                l.taken := greatest(l.taken - given, 0);
            ELSE
                given := l.burst - (l.amount - 1 + l.period - 1) / l.period;
                given := greatest(least(known.cost, given) - behind, 0);
            END IF;
            INSERT INTO stanchion.limit_tickets (limiter, ticket, until, cost, mark, refund)
            VALUES (l.id, in_tickets[k], l.last + 60000000, 0, 0, given)
            ON CONFLICT ON CONSTRAINT limit_tickets_pkey DO UPDATE
            SET until = EXCLUDED.until, cost = 0, mark = 0, refund = EXCLUDED.refund;
            l.purge := coalesce(l.purge, l.last + 1000000);
            IF known.until = l.latest THEN
                l.latest := coalesce((
                    SELECT max(t.until) FROM stanchion.limit_tickets AS t
                    WHERE t.limiter = l.id AND t.refund IS NULL AND t.until > l.last
                ), 0);
                l.taken := CASE WHEN l.latest = 0 THEN 0 ELSE l.taken END;
            END IF;
            l.tokens := l.tokens + given;
            IF l.tokens >= l.burst THEN
                l.tokens := l.burst;
                l.fraction := 0;
            END IF;
            refunds[k] := given;
        END LOOP;
        PERFORM stanchion.limit_save(l, in_retention);
        first := first + in_counts[i];
    END LOOP;
    RETURN refunds;
END
$$;
