-- limit_save: writes a limiter's row.
--
-- The row stays for the retention after the time at which the bucket is full. `expires` is in an
-- index. It is moved only if it is too early, and then by an eighth of the retention more, so that
-- nearly all updates stay within the page.
--
-- Arguments   a locked row as it is now, the retention in µs
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.limit_save(in_limiter stanchion.limiters, in_retention bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    most CONSTANT bigint := 9007199254740991;
    keep CONSTANT bigint := least(greatest(in_retention, 60000000), most);
    needed bigint := in_limiter.last;
BEGIN
    IF in_limiter.amount IS NOT NULL THEN
        needed := greatest(in_limiter.latest, needed + stanchion.limit_wait(
            in_limiter.amount, in_limiter.period, in_limiter.tokens, in_limiter.fraction, in_limiter.burst
        ));
    END IF;
    IF in_limiter.expires < least(needed + keep, most) THEN
        in_limiter.expires := least(needed + keep + keep / 8, most);
    END IF;
    UPDATE stanchion.limiters AS l
    SET amount = in_limiter.amount, period = in_limiter.period, burst = in_limiter.burst,
        tokens = in_limiter.tokens, fraction = in_limiter.fraction, last = in_limiter.last,
        latest = in_limiter.latest, taken = in_limiter.taken, purge = in_limiter.purge,
        lanes = in_limiter.lanes, roomy = in_limiter.roomy, lanes_up = in_limiter.lanes_up, expires = in_limiter.expires
    WHERE l.id = in_limiter.id;
END
$$;
