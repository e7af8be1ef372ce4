-- limit_convert: converts a content to another quota: the fraction is rounded down to the new unit;
-- the content is at most the new burst.
--
-- Arguments   the content, the period of its fraction, the new period and burst
-- Returns     the content
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.limit_convert(
    tokens bigint, fraction bigint, before bigint, period bigint, burst bigint
) RETURNS stanchion.limit_level
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    level stanchion.limit_level;
BEGIN
    IF tokens >= burst THEN
        level.tokens := burst;
        level.fraction := 0;
    ELSE
        level.tokens := tokens;
        -- The product can have 106 bits.
        level.fraction := div(fraction::numeric * period, before)::bigint;
    END IF;
    RETURN level;
END
$$;
