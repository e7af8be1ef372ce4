-- enter: sets the transaction of a step, so that its commit waits for the disk, and so that its plans do not depend on
-- the size of the tables at the time of planning.
--
-- A connection that has these settings already saves the time. O(1); takes no locks.
CREATE OR REPLACE FUNCTION stanchion.enter() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('plan_cache_mode') <> 'force_generic_plan' THEN
        PERFORM set_config('plan_cache_mode', 'force_generic_plan', true);
    END IF;
    IF current_setting('enable_seqscan') = 'on' THEN
        PERFORM set_config('enable_seqscan', 'off', true);
    END IF;
END
$$;
