-- limit_wait: returns the time until a bucket has this many tokens, in µs rounded up, at most 2^53
-- - 1.
--
-- Arguments   the rate, the content, the number of tokens
-- Returns     the wait; 0 if the tokens are there
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.limit_wait(
    amount bigint, period bigint, tokens bigint, fraction bigint, target bigint
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    missing CONSTANT bigint := target - tokens;
    periods bigint;
BEGIN
    IF missing <= 0 THEN
        RETURN 0;
    END IF;
    -- The fraction reduces the last period: a rest of 1 to `amount` is always more than a fraction.
    periods := (missing - 1) / amount;
    IF periods > 9007199254740991 / period THEN
        RETURN 9007199254740991;
    END IF;
    RETURN least(
        9007199254740991,
        periods * period + ((missing - periods * amount) * period - fraction + amount - 1) / amount
    );
END
$$;
