-- hurry: leaves a step that has waited for rows so much less time for the next ones. Otherwise it
-- could wait for each of its names, one after the other, while the callers of the others wait for
-- it.
--
-- Arguments   p_patience: the `lock_timeout` with which the step began
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.hurry(p_patience text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    left_over CONSTANT interval := p_patience::interval - (clock_timestamp() - statement_timestamp());
BEGIN
    -- A step of ours has a row for some milliseconds; after many such waits there is no time for
    -- them.
    PERFORM set_config('lock_timeout', ceil(1000 * extract(epoch FROM CASE
        WHEN left_over > - p_patience::interval THEN greatest(left_over, '10 ms') ELSE '1 ms' END))::text || 'ms', true);
END
$$;
