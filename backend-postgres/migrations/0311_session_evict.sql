-- Asks sessions to give a mutex up.
--
-- Arguments: the namespace, the name, and the process ids of the sessions. Locks: none. O(requests under way). A retry asks twice,
-- which is harmless.
CREATE FUNCTION stanchion.session_evict(space text, object text, pids integer[]) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM stanchion.session_evictions WHERE asked < clock_timestamp() - interval '5 s';
    INSERT INTO stanchion.session_evictions
        SELECT asked_for, space, object, clock_timestamp() FROM unnest(pids) asked_for;
$$;
