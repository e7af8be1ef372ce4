-- limit_load: brings a limiter to this moment, and forgets the tickets whose time has come.
--
-- A moment before the latest one seen counts as the latest one and mints nothing (L4).
--
-- Arguments   a locked row, the moment
-- Returns     the row as it is now; only its tickets are written yet
-- Locks       rows of `limit_tickets`, under that of the limiter
-- Complexity  O(log tickets) for each that leaves, else O(1)
-- Retry       changes nothing more
CREATE FUNCTION stanchion.limit_load(limiter stanchion.limiters, moment bigint)
RETURNS stanchion.limiters
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    level stanchion.limit_level;
    ended bigint;
BEGIN
    IF limiter.amount IS NULL THEN
        limiter.last := moment;
    ELSIF moment > limiter.last THEN
        level := stanchion.limit_after(
            limiter.amount, limiter.period, limiter.tokens, limiter.fraction, moment - limiter.last, limiter.burst
        );
        limiter.tokens := level.tokens;
        limiter.fraction := level.fraction;
        limiter.last := moment;
    END IF;
    IF limiter.due <= limiter.last THEN
        DELETE FROM stanchion.limit_tickets AS t
        WHERE t.limiter = limit_load.limiter.id AND t.refund IS NULL AND t.until <= limit_load.limiter.last;
        GET DIAGNOSTICS ended = ROW_COUNT;
        DELETE FROM stanchion.limit_tickets AS t
        WHERE t.limiter = limit_load.limiter.id AND t.refund IS NOT NULL AND t.until <= limit_load.limiter.last;
        limiter := stanchion.limit_recount(limiter, limiter.live - ended);
    END IF;
    RETURN limiter;
END
$$;
