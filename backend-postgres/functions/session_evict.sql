-- session_evict: writes requests that sessions give up a mutex.
--
-- Arguments   the namespace, the name, the process ids of the sessions, and the largest fencing
--             token that is meant; null for every grant until now
-- Returns     the numbers of the requests
-- Complexity  O(requests under way)
-- Retry       requests it twice, which is harmless
CREATE OR REPLACE FUNCTION stanchion.session_evict(space text, object text, pids integer[], bound bigint) RETURNS bigint[]
LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM stanchion.session_evictions WHERE asked < clock_timestamp() - interval '1 min';
    WITH asked AS (
        INSERT INTO stanchion.session_evictions (pid, namespace, name, token, asked)
            SELECT asked_for, space, object, least(t.last_value, bound), clock_timestamp()
            FROM unnest(pids) asked_for, stanchion.session_tokens t
            RETURNING id)
    SELECT coalesce(array_agg(id), '{}') FROM asked;
END;
