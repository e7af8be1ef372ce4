-- Draws a fencing token (M2, M3): larger than every earlier one, and than the clock. The caller must hold its lock, and
-- be in an era (`session_join`).
--
-- Returns the token. Locks: those of `session_raise`, about once in 10 s. O(1). A retry draws another one.
CREATE OR REPLACE FUNCTION stanchion.session_token() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    token bigint := nextval('stanchion.session_tokens');
BEGIN
    WHILE token <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint LOOP
        PERFORM stanchion.session_raise(5000000);
        token := nextval('stanchion.session_tokens');
    END LOOP;
    RETURN token;
END;
$$;
