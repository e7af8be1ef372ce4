-- limit_after: returns the content of a bucket after some time.
--
-- Every intermediate number is whole and below 2^54 in magnitude: `rest < period` and `amount *
-- period < 2^53`. Debt is paid first, so that no product is larger than the debt or the cap.
--
-- Arguments   the rate, the content, the time in µs, the maximum number of tokens
-- Returns     the content then
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.limit_after(
    amount bigint, period bigint, tokens bigint, fraction bigint, elapsed bigint, cap bigint
) RETURNS stanchion.limit_level
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    level stanchion.limit_level;
    periods bigint := 0;
    rest bigint := elapsed;
    paid bigint;
BEGIN
    IF tokens >= cap THEN
        level.tokens := cap;
        level.fraction := 0;
        RETURN level;
    END IF;
    IF elapsed >= period THEN
        periods := elapsed / period;
        rest := elapsed % period;
    END IF;
    IF periods > 0 AND tokens < 0 THEN
        paid := least(periods, -tokens / amount);
        tokens := tokens + paid * amount;
        periods := periods - paid;
        IF periods > 0 THEN
            tokens := tokens + amount;
            periods := periods - 1;
        END IF;
    END IF;
    IF tokens > cap OR periods > 0 AND periods > (cap - tokens) / amount THEN
        level.tokens := cap;
        level.fraction := 0;
        RETURN level;
    END IF;
    fraction := fraction + rest * amount % period;
    tokens := tokens + periods * amount + rest * amount / period;
    IF fraction >= period THEN
        tokens := tokens + 1;
        fraction := fraction - period;
    END IF;
    IF tokens >= cap THEN
        tokens := cap;
        fraction := 0;
    END IF;
    level.tokens := tokens;
    level.fraction := fraction;
    RETURN level;
END
$$;
