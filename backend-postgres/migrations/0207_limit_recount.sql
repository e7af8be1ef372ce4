-- limit_recount: notes how many reservations are ahead, and when the next ticket leaves.
--
-- Arguments   a locked row, how many reservations are ahead
-- Returns     the row
-- Locks       none
-- Complexity  O(log tickets)
-- Retry       changes nothing
CREATE FUNCTION stanchion.limit_recount(in_limiter stanchion.limiters, in_live bigint)
RETURNS stanchion.limiters
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    in_limiter.live := in_live;
    IF in_live = 0 THEN
        in_limiter.taken := 0;
        in_limiter.latest := 0;
    END IF;
    in_limiter.due := least(
        (SELECT min(t.until) FROM stanchion.limit_tickets AS t WHERE t.limiter = in_limiter.id AND t.refund IS NULL),
        (SELECT min(t.until) FROM stanchion.limit_tickets AS t WHERE t.limiter = in_limiter.id AND t.refund IS NOT NULL)
    );
    RETURN in_limiter;
END
$$;
