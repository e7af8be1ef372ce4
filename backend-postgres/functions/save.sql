-- save: writes the row of an object, if anything changed or its `expires` is too early.
--
-- The row stays for the retention after the last use and the longest lease. `expires` is moved only
-- if it is too early, and then by an eighth of the retention more than necessary, so that the other
-- updates touch no index.
--
-- Arguments   the locked row as it is now; whether it changed; the time; the longest lease that was
--             set; the retention
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.save(
    o stanchion.objects, p_changed boolean, p_now bigint, p_lease bigint, p_tokens bigint
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF o.expires < p_now + p_lease + p_tokens THEN
        o.expires := p_now + p_lease + p_tokens + p_tokens / 8;
    ELSIF NOT p_changed THEN
        RETURN;
    END IF;
    UPDATE stanchion.objects x SET
        lim = o.lim, token = o.token, used = o.used, waiting = o.waiting, next = o.next, touched = o.touched,
        tombstones_until = o.tombstones_until, arrival = o.arrival, longest = o.longest, heaviest = o.heaviest,
        dead = o.dead, swept = o.swept, swept_up = o.swept_up, swept_dead = o.swept_dead,
        swept_since = o.swept_since, expires = o.expires, generation = o.generation, finished = o.finished,
        abandoned = o.abandoned, expired = o.expired, past = o.past, old = o.old, keyed = o.keyed,
        let_up = o.let_up, let_room = o.let_room, let_due = o.let_due, let_told = o.let_told, let_over = o.let_over,
        let_most = o.let_most
    WHERE x.id = o.id;
END
$$;
