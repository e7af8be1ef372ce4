-- resize: sets the limit for all callers. Sends hints to waiters that fit now, and to waiters that
-- are too large now.
--
-- Arguments   the object and the limit
-- Locks       the object
-- Complexity  as `let_in`
-- Retry       sets the same limit
CREATE OR REPLACE FUNCTION stanchion.resize(p_namespace text, p_tokens bigint, p_kind text, p_name text, p_limit bigint)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o stanchion.objects;
    clock bigint;
BEGIN
    PERFORM stanchion.enter();
    o := stanchion.claim(p_namespace, p_kind, p_name, p_tokens);
    clock := stanchion.now();
    IF o.next <= clock THEN
        o := stanchion.remove_expired(o, clock, 1);
    END IF;
    IF o.lim IS DISTINCT FROM p_limit THEN
        o := stanchion.let_anew(o);
    END IF;
    o.lim := p_limit;
    -- If there is no hold, the retention of the limit begins now.
    o.touched := clock;
    o := stanchion.wake(o, clock, NULL);
    PERFORM stanchion.save(o, true, clock, 0, p_tokens);
END
$$;
