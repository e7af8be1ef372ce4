-- session_end: ends the sessions that were asked to give up a mutex, have not answered, and still
-- hold it. Removes the requests.
--
-- Arguments   the namespace, the name, and the numbers of the requests
-- Returns     the number of ended sessions
-- Locks       first the rows of the requests, so that a session cannot answer and be granted the
--             mutex again in between
-- Complexity  O(locks of the server)
-- Retry       finds no request and ends no session
CREATE OR REPLACE FUNCTION stanchion.session_end(space text, object text, requests bigint[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unanswered integer[];
    ended bigint;
BEGIN
    WITH gone AS (DELETE FROM stanchion.session_evictions e WHERE e.id = ANY (requests) RETURNING e.pid, e.declined)
    SELECT coalesce(array_agg(gone.pid) FILTER (WHERE NOT gone.declined), '{}') INTO unanswered FROM gone;
    SELECT count(*) FILTER (
            WHERE CASE WHEN h.holds AND h.pid = ANY (unanswered) THEN pg_terminate_backend(h.pid) ELSE false END)
        INTO ended FROM stanchion.session_holders(space, object) h;
    RETURN ended;
END;
$$;
