-- limit_decide: decides calls in order, all at one moment.
--
-- Runs of equal takes come and go as one group and cost no more than one. What each is told follows from the content
-- before the first.
--
-- Arguments   namespace; retention in µs; lane and number of the flight; names, distinct, in the order of their bytes;
--             how many groups each name has; then for each group, name by name:
--             check (`r` refuse, `a` adopt or follow, `p` replace), amount, period, burst, cost, ticket or null for
--             takes, the longest wait or how many takes
-- Returns     for each name "elapsed answer"; null if a later flight of the lane was answered before. An answer from
--             memory was decided `elapsed` before, 0 where the clock has gone back since: its waits are shorter by it.
--             The answer, also kept in `limit_answers`, is "behind", by how much the clock has gone back, then, each
--             after a `;`, for each group
--             "t COUNT ADMITTED COST" takes
--             "r READY_AT WAIT" reserved   "n" no place that soon   "c" cancelled before
--             "m COUNT" the quotas differ   "l COUNT" larger than the burst
--             and "q AMOUNT PERIOD BURST" before the first group and where it was replaced, and before takes whose
--             content does not follow from the part before "s TOKENS FRACTION SETTLED", 1 if nobody waits.
-- Locks       rows of `limiters`, in the order of the names; then, under these, of `limit_tickets` and `limit_answers`
-- Complexity  O(groups); for reservations O(log tickets) each. New lanes O(1) on average.
-- Retry       the lane and number name the flight: it gets the answer of the first time, for 60 s
CREATE FUNCTION stanchion.limit_decide(
    in_namespace text, in_retention bigint, in_lane uuid, in_number bigint, in_names text[], in_groups integer[],
    in_checks "char"[], in_amounts bigint[], in_periods bigint[], in_bursts bigint[], in_costs bigint[],
    in_tickets uuid[], in_spans bigint[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
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
                rows[i], moment, in_lane, in_number, in_retention, known.number IS NULL,
                first, first + in_groups[i] - 1, in_checks, in_amounts, in_periods, in_bursts, in_costs, in_tickets,
                in_spans
            );
        END IF;
        first := first + in_groups[i];
    END LOOP;
    RETURN answers;
END
$$;
