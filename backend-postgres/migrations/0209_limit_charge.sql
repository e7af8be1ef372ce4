-- limit_charge: counts a cost taken behind all reservations that are ahead.
--
-- Where the count would reach 2^53 it and all marks are lowered together. A mark that would fall below zero has more than
-- 2^53 behind it and can never give anything back.
--
-- Arguments   limiter, the cost taken so far, the cost
-- Returns     the cost taken now
-- Locks       rows of `limit_tickets`, under that of the limiter
-- Complexity  O(1), or O(reservations) once in 2^53 tokens
-- Retry       its caller's
CREATE FUNCTION stanchion.limit_charge(in_limiter bigint, in_taken bigint, in_cost bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    shift CONSTANT bigint := in_taken + in_cost - 9007199254740991;
BEGIN
    IF shift <= 0 THEN
        RETURN in_taken + in_cost;
    END IF;
    UPDATE stanchion.limit_tickets AS t
    SET cost = CASE WHEN t.mark >= shift THEN t.cost ELSE 0 END, mark = greatest(t.mark - shift, 0)
    WHERE t.limiter = in_limiter AND t.refund IS NULL;
    RETURN 9007199254740991;
END
$$;
