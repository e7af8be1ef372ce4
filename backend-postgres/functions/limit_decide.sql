-- limit_decide: decides calls in order, all at one moment.
--
-- Equal takes in a row are sent and answered as one run, which costs no more than one take. The
-- result of each take follows from the content before the first one.
--
-- Arguments   namespace; retention in µs; lane and number of the request; names, distinct, in the
--             order of their bytes; the number of runs of each name; then for each run, name by
--             name:
--             check (`r` refuse, `a` adopt or follow, `p` replace), amount, period, burst, cost,
--             the ticket (null for takes), the maximum wait (for takes: their number)
-- Returns     for each name "elapsed answer"; null if a later request of the lane was answered
--             before. `elapsed` is the time since the decision, 0 if the clock has gone back since:
--             for a retry, waits are shorter by it.
--             The answer, which is also kept in `limit_answers`, is "behind" (how far the clock had
--             gone back), then for each run, after a `;`:
--             "t COUNT ADMITTED COST" takes
--             "r READY_AT WAIT" reserved   "n" no place that soon   "c" cancelled before
--             "m COUNT" the quotas differ   "l COUNT" larger than the burst
--             "q AMOUNT PERIOD BURST" comes before the first run, and where the quota was replaced
--             "s TOKENS FRACTION SETTLED" comes before takes whose content does not follow from the
--             part before;
--             SETTLED is 1 if no reservation is ahead
-- Locks       rows of `limiters`, in the order of the names; then, under these, of `limit_tickets`
--             and `limit_answers`
-- Complexity  O(runs); for reservations O(log tickets) each. See also `limit_decide_one`
-- Retry       the lane and number name the request: it gets the answer of the first time, for 60 s
CREATE OR REPLACE FUNCTION stanchion.limit_decide(
    in_namespace text, in_retention bigint, in_lane uuid, in_number bigint, in_names text[], in_groups integer[],
    in_checks "char"[], in_amounts bigint[], in_periods bigint[], in_bursts bigint[], in_costs bigint[],
    in_tickets uuid[], in_spans bigint[]
) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    rows stanchion.limiters[];
    moment bigint;
    known record;
    answers text[];
    first integer := 1;
BEGIN
    rows := stanchion.limit_lock(in_namespace, in_names, true);
    moment := stanchion.now();
    FOR i IN 1 .. cardinality(in_names) LOOP
        SELECT a.number, a.decided, a.answer INTO known
        FROM stanchion.limit_answers AS a
        WHERE a.limiter = rows[i].id AND a.lane = in_lane;
        IF known.number >= in_number THEN
            answers[i] := CASE WHEN known.number = in_number
                THEN greatest(moment - known.decided, 0) || ' ' || known.answer END;
        ELSE
            answers[i] := '0 ' || stanchion.limit_decide_one(
                rows[i], moment, in_lane, in_number, in_retention, cardinality(in_names), known.number IS NULL,
                first, first + in_groups[i] - 1, in_checks, in_amounts, in_periods, in_bursts, in_costs, in_tickets,
                in_spans
            );
        END IF;
        first := first + in_groups[i];
    END LOOP;
    RETURN answers;
END
$$;
