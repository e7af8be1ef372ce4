-- session_token_in: draws the token of a transaction that has a mutex by `session_lock_in`, over another connection: what it
-- locks must not stay locked to the end of the user's transaction.
--
-- p_backend  the server process of the transaction
-- Returns null if that process does not have the mutex in this database.
-- Locks      those of `session_token`. O(locks of the server). A retry draws another token.
CREATE OR REPLACE FUNCTION stanchion.session_token_in(p_namespace text, p_name text, p_backend integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM stanchion.session_holders(p_namespace, p_name) h WHERE h.pid = p_backend AND h.holds) THEN
        RETURN stanchion.session_token();
    END IF;
    RETURN NULL;
END
$$;
