-- resize: sets the limit for everybody; wakes those who fit now and tells those who never will.
--
-- Locks     the object. O(1); O(waiters) where one is larger than the limit.
-- Retry     sets the same limit.
CREATE FUNCTION stanchion.resize(p_namespace text, p_tokens bigint, p_kind text, p_name text, p_limit bigint)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    o stanchion.objects;
    clock bigint;
BEGIN
    PERFORM stanchion.enter();
    o := stanchion.claim(p_namespace, p_kind, p_name, p_tokens);
    clock := stanchion.now();
    IF o.next <= clock THEN
        o := stanchion.reap(o, clock);
    END IF;
    o.lim := p_limit;
    -- Without a hold the retention of the limit counts from now.
    o.touched := clock;
    o := stanchion.wake(o, clock, NULL);
    PERFORM stanchion.save(o, true, clock, 0, p_tokens);
END
$$;
