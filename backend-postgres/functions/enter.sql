-- enter: sets the transaction of a step: its commit waits for the disk, it waits for rows for a
-- short time only, and its plans do not depend on the size of the tables.
--
-- A connection that has these settings already saves the time.
--
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.enter() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- A session of ours has both; in any other the first may have any value.
    IF current_setting('plan_cache_mode') <> 'force_generic_plan' OR current_setting('lock_timeout') NOT LIKE '%ms' THEN
        PERFORM set_config('plan_cache_mode', 'force_generic_plan', true);
        IF current_setting('lock_timeout')::interval NOT BETWEEN '1 ms' AND '100 ms' THEN
            PERFORM set_config('lock_timeout', '100ms', true);
        END IF;
    END IF;
    -- What is wanted in an order is read in it: a sort would first read all. No compiler, since a
    -- plan that scans a whole table all the same has so large a price then that the server would
    -- compile it, for some 40 ms.
    IF 'on' IN (current_setting('enable_seqscan'), current_setting('enable_sort'),
                current_setting('enable_incremental_sort'), current_setting('enable_bitmapscan'), current_setting('jit'))
    THEN
        PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
                set_config('enable_incremental_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
                set_config('jit', 'off', true);
    END IF;
END
$$;
