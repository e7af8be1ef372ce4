-- session_token: draws a fencing token (M2, M3): larger than every earlier one and than the clock,
-- by about 1 ms at most. The caller must hold its lock.
--
-- Returns     the token
-- Locks       those of `session_raise`, about once in 1 ms
-- Complexity  O(1)
-- Retry       draws another token
CREATE OR REPLACE FUNCTION stanchion.session_token() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    token bigint := nextval('stanchion.session_tokens');
BEGIN
    WHILE token <= stanchion.now() LOOP
        token := stanchion.session_raise();
    END LOOP;
    RETURN token;
END
$$;
