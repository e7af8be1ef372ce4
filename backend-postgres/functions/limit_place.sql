-- limit_place: returns the time of a reservation for a cost, not before the last reservation ahead.
--
-- The time is rounded up. The tokens that flow in until then must fit into the burst in addition to
-- this cost: a caller that came only then would have found a full bucket (L1). So the content is
-- lowered by the tokens that would not fit.
--
-- Arguments   the quota, the content, its time, the time of the last reservation ahead (0 if there
--             is none), the cost
-- Returns     the content after the reservation, and its time; null if the debt or the time would
--             reach 2^53
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.limit_place(
    amount bigint, period bigint, burst bigint, tokens bigint, fraction bigint, last bigint, latest bigint, cost bigint
) RETURNS stanchion.limit_place
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    most CONSTANT bigint := 9007199254740991;
    place stanchion.limit_place;
    level stanchion.limit_level;
    wait bigint;
BEGIN
    tokens := tokens - cost;
    IF tokens < -most THEN
        RETURN NULL;
    END IF;
    wait := stanchion.limit_wait(amount, period, tokens, fraction, 0);
    IF last + wait > most THEN
        RETURN NULL;
    END IF;
    IF wait > 0 AND last + wait >= latest THEN
        level := stanchion.limit_after(amount, period, tokens, fraction, wait, most);
        IF level.tokens >= burst - cost THEN
            tokens := tokens - (level.tokens - (burst - cost));
            fraction := fraction - level.fraction;
            IF fraction < 0 THEN
                tokens := tokens - 1;
                fraction := fraction + period;
            END IF;
            IF tokens < -most THEN
                RETURN NULL;
            END IF;
        END IF;
    END IF;
    place.tokens := tokens;
    place.fraction := fraction;
    place.ready_at := greatest(last + wait, latest);
    RETURN place;
END
$$;
