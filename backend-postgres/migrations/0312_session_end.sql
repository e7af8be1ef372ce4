-- Ends those of the sessions that hold the mutex still, and takes the requests to them back.
--
-- Arguments: the namespace, the name, and the process ids. Returns how many were ended. Locks: none. O(locks of the server). A
-- retry ends those that are left.
CREATE FUNCTION stanchion.session_end(space text, object text, pids integer[]) RETURNS bigint
LANGUAGE sql AS $$
    DELETE FROM stanchion.session_evictions e
        WHERE e.namespace = space AND e.name = object AND e.pid = ANY (pids);
    SELECT count(*) FILTER (
        WHERE CASE WHEN h.holds AND h.pid = ANY (pids) THEN pg_terminate_backend(h.pid) ELSE false END)
    FROM stanchion.session_holders(space, object) h;
$$;
