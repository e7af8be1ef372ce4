-- limit_load: brings a limiter up to this moment.
--
-- A moment before the latest time seen counts as that time, and mints nothing (L4). If it is more
-- than 60 s before, the clock was wrong then: the limiter goes on from the moment with the content
-- it has, without its tickets. `latest` and `taken` are 0 if no reservation is ahead. Tickets whose
-- time has come are removed about once a second, many of them in parts: many at once cost little
-- more than one.
--
-- A request can take up to 2^54 tokens. If `taken` has reached 2^53, `taken` and all marks are
-- lowered together. For a mark that would fall below zero, so much cost was taken after it that its
-- reservation can never give anything back.
--
-- Arguments   a locked row, the moment; the number of limiters of the step, which share what one
--             step removes
-- Returns     the row as it is now; only its tickets have been written
-- Locks       rows of `limit_tickets`, under the lock of the limiter
-- Complexity  O(1); O(log tickets) for each removed one, O(tickets) once in 2^53 tokens and after a
--             clock was wrong
-- Retry       changes nothing more
CREATE OR REPLACE FUNCTION stanchion.limit_load(in_limiter stanchion.limiters, in_moment bigint, in_names integer)
RETURNS stanchion.limiters
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    level stanchion.limit_level;
    shift bigint;
    -- Maximum number of tickets of a kind that one step removes.
    part CONSTANT integer := greatest(250 / in_names, 2);
    removed integer;
BEGIN
    IF in_limiter.last - in_moment > 60000000 THEN
        DELETE FROM stanchion.limit_tickets AS t WHERE t.limiter = in_limiter.id;
        in_limiter.last := in_moment;
        in_limiter.latest := 0;
        in_limiter.taken := 0;
        in_limiter.purge := NULL;
        in_limiter.expires := 0;
    ELSIF in_limiter.amount IS NULL THEN
        in_limiter.last := in_moment;
    ELSIF in_moment > in_limiter.last THEN
        level := stanchion.limit_after(
            in_limiter.amount, in_limiter.period, in_limiter.tokens, in_limiter.fraction,
            in_moment - in_limiter.last, in_limiter.burst
        );
        in_limiter.tokens := level.tokens;
        in_limiter.fraction := level.fraction;
        in_limiter.last := in_moment;
    END IF;
    IF in_limiter.latest <= in_limiter.last THEN
        in_limiter.latest := 0;
        in_limiter.taken := 0;
    END IF;
    IF in_limiter.purge <= in_limiter.last THEN
        DELETE FROM stanchion.limit_tickets AS t WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM stanchion.limit_tickets AS r
            WHERE r.limiter = in_limiter.id AND r.refund IS NULL AND r.until <= in_limiter.last
            ORDER BY r.until LIMIT part
        ) || ARRAY(
            SELECT c.ctid FROM stanchion.limit_tickets AS c
            WHERE c.limiter = in_limiter.id AND c.refund IS NOT NULL AND c.until <= in_limiter.last
            ORDER BY c.until LIMIT part
        ));
        GET DIAGNOSTICS removed = ROW_COUNT;
        in_limiter.purge := CASE
            WHEN removed >= part THEN in_limiter.last
            WHEN EXISTS (SELECT FROM stanchion.limit_tickets AS t WHERE t.limiter = in_limiter.id)
            THEN in_limiter.last + 1000000 END;
    END IF;
    IF in_limiter.taken > 9007199254740991 THEN
        shift := in_limiter.taken - 9007199254740991;
        UPDATE stanchion.limit_tickets AS t
        SET cost = CASE WHEN t.mark >= shift THEN t.cost ELSE 0 END, mark = greatest(t.mark - shift, 0)
        WHERE t.limiter = in_limiter.id AND t.refund IS NULL;
        in_limiter.taken := 9007199254740991;
    END IF;
    RETURN in_limiter;
END
$$;
