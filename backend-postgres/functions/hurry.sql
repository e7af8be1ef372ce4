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
    PERFORM set_config('lock_timeout', ceil(extract(epoch FROM greatest(left_over, '10 ms')) * 1000)::text || 'ms', true);
END
$$;
