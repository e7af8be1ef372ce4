-- outcome: returns how a generation of a wait group ended.
--
-- The outcome of a forgotten generation is the sum of all forgotten ones and of the oldest one that
-- is known.
--
-- Arguments   the row of the group, and the generation
-- Returns     {finished, abandoned, expired}
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.outcome(o stanchion.objects, p_asked bigint) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last bigint := o.generation - CASE WHEN o.used > 0 THEN 1 ELSE 0 END;
    at integer := (coalesce(cardinality(o.past), 0) / 4 - (last - p_asked))::integer;
BEGIN
    IF at >= 1 THEN
        RETURN o.past[at * 4 - 3:at * 4 - 1];
    END IF;
    RETURN ARRAY[coalesce(o.old[1], 0) + coalesce(o.past[1], 0), coalesce(o.old[2], 0) + coalesce(o.past[2], 0),
                 coalesce(o.old[3], 0) + coalesce(o.past[3], 0)];
END
$$;
