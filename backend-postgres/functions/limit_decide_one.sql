-- limit_decide_one: decides the calls of one limiter.
--
-- Arguments   the locked row, the moment; lane, number and retention as for `limit_decide`; the
--             number of its names; whether the lane is new; the first and the last of its runs, and
--             the runs of all limiters
-- Returns     the answer, as `limit_decide` describes it
-- Locks       rows of `limit_tickets` and `limit_answers`, under the lock of the limiter
-- Complexity  O(runs); for reservations O(log tickets) each. For a new lane O(1), or O(looks).
CREATE OR REPLACE FUNCTION stanchion.limit_decide_one(
    in_limiter stanchion.limiters, in_moment bigint, in_lane uuid, in_number bigint, in_retention bigint,
    in_names integer, in_new boolean, in_first integer, in_last integer, in_checks "char"[], in_amounts bigint[], in_periods bigint[],
    in_bursts bigint[], in_costs bigint[], in_tickets uuid[], in_spans bigint[]
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    -- The limiter as it is now.
    l stanchion.limiters := stanchion.limit_load(in_limiter, in_moment, in_names);
    behind CONSTANT bigint := l.last - in_moment;
    told text := behind;
    -- The quota and the content that follow from the parts of the answer so far.
    is_quota_told boolean := false;
    is_content_told boolean := false;
    differs boolean;
    absent boolean;
    cost bigint;
    span bigint;
    admitted bigint;
    wait bigint;
    -- The tickets of this limiter's runs, and the row of each, at its first index.
    tickets uuid[];
    untils bigint[];
    refunds bigint[];
    slot integer;
    -- Reservations that are not written yet: their first indices, costs and marks.
    entered integer[];
    costs bigint[];
    marks bigint[];
    place stanchion.limit_place;
    level stanchion.limit_level;
    -- Maximum number of lanes that one step looks at for old answers.
    looks CONSTANT integer := greatest(250 / in_names, 4);
    old tid[];
    seen bigint;
BEGIN
    FOR g IN in_first .. in_last LOOP
        absent := l.amount IS NULL;
        differs := NOT absent AND (
            l.amount <> in_amounts[g] OR l.period <> in_periods[g] OR l.burst <> in_bursts[g]
        );
        IF absent THEN
            l.amount := in_amounts[g];
            l.period := in_periods[g];
            l.burst := in_bursts[g];
            l.tokens := l.burst;
            l.fraction := 0;
        ELSIF differs AND in_checks[g] = 'p' THEN
            level := stanchion.limit_convert(l.tokens, l.fraction, l.period, in_periods[g], in_bursts[g]);
            l.amount := in_amounts[g];
            l.period := in_periods[g];
            l.burst := in_bursts[g];
            l.tokens := level.tokens;
            l.fraction := level.fraction;
            is_quota_told := false;
        END IF;
        IF NOT is_quota_told THEN
            told := told || ';q ' || l.amount || ' ' || l.period || ' ' || l.burst;
            is_quota_told := true;
            is_content_told := false;
        END IF;

        cost := in_costs[g];
        span := in_spans[g];
        IF differs AND in_checks[g] = 'r' THEN
            told := told || ';m ' || CASE WHEN in_tickets[g] IS NULL THEN span ELSE 1 END;
        ELSIF cost > l.burst THEN
            told := told || ';l ' || CASE WHEN in_tickets[g] IS NULL THEN span ELSE 1 END;
        ELSIF in_tickets[g] IS NULL THEN
            IF NOT is_content_told THEN
                told := told || ';s ' || l.tokens || ' ' || l.fraction
                    || CASE WHEN l.latest = 0 THEN ' 1' ELSE ' 0' END;
                is_content_told := true;
            END IF;
            admitted := CASE WHEN l.tokens < 0 THEN 0 WHEN cost = 0 THEN span ELSE least(span, l.tokens / cost) END;
            told := told || ';t ' || span || ' ' || admitted || ' ' || cost;
            l.tokens := l.tokens - admitted * cost;
            IF l.latest > 0 THEN
                l.taken := l.taken + admitted * cost;
            END IF;
        ELSE
            IF tickets IS NULL THEN
                tickets := in_tickets[in_first:in_last];
                IF l.purge IS NOT NULL THEN
                    SELECT array_agg(t.until ORDER BY w.slot), array_agg(t.refund ORDER BY w.slot) INTO untils, refunds
                    FROM unnest(tickets) WITH ORDINALITY AS w (ticket, slot)
                    LEFT JOIN LATERAL (
                        SELECT k.until, k.refund FROM stanchion.limit_tickets AS k
                        WHERE k.limiter = l.id AND k.ticket = w.ticket AND k.until > l.last
                        LIMIT 1
                    ) AS t ON true;
                END IF;
            END IF;
            slot := array_position(tickets, in_tickets[g]);
            IF refunds[slot] IS NOT NULL THEN
                told := told || ';c';
                cost := 0;
            ELSIF untils[slot] IS NOT NULL THEN
                told := told || ';r ' || untils[slot] || ' '
                    || least(untils[slot] - in_moment, 9007199254740991);
            ELSE
                place := stanchion.limit_place(l.amount, l.period, l.burst, l.tokens, l.fraction, l.last, l.latest, cost);
                wait := CASE WHEN place.ready_at > l.last THEN least(place.ready_at - in_moment, 9007199254740991)
                    ELSE 0 END;
                IF place.ready_at IS NULL OR wait > span THEN
                    told := told || ';n';
                ELSE
                    told := told || ';r ' || place.ready_at || ' ' || wait;
                    IF cost > 0 THEN
                        l.tokens := place.tokens;
                        l.fraction := place.fraction;
                        is_content_told := false;
                    END IF;
                    IF cost > 0 AND place.ready_at > l.last THEN
                        l.taken := l.taken + cost;
                        untils[slot] := place.ready_at;
                        entered := entered || slot;
                        costs := costs || cost;
                        marks := marks || l.taken;
                        l.latest := greatest(l.latest, place.ready_at);
                        l.purge := coalesce(l.purge, l.last + 1000000);
                    END IF;
                END IF;
            END IF;
        END IF;
        -- What takes nothing makes no bucket.
        IF absent AND (cost = 0 OR cost > l.burst) THEN
            l.amount := NULL;
            l.period := NULL;
            l.burst := NULL;
            l.tokens := 0;
            l.fraction := 0;
            is_quota_told := false;
        END IF;
    END LOOP;

    IF l.amount IS NULL AND in_new AND l.lanes = 0 AND l.purge IS NULL THEN
        DELETE FROM stanchion.limiters AS n WHERE n.id = l.id;
        RETURN told;
    END IF;

    IF entered IS NOT NULL THEN
        -- The row of a ticket that is there already has no meaning any more.
        INSERT INTO stanchion.limit_tickets (limiter, ticket, until, cost, mark)
        SELECT l.id, tickets[e.slot], untils[e.slot], e.cost, e.mark
        FROM unnest(entered, costs, marks) AS e (slot, cost, mark)
        ON CONFLICT ON CONSTRAINT limit_tickets_pkey DO UPDATE
        SET until = EXCLUDED.until, cost = EXCLUDED.cost, mark = EXCLUDED.mark, refund = NULL;
    END IF;
    IF in_new THEN
        INSERT INTO stanchion.limit_answers (limiter, lane, number, decided, answer)
        VALUES (l.id, in_lane, in_number, in_moment, told);
        l.lanes := l.lanes + 1;
        IF l.lanes > l.roomy THEN
            -- Each new lane looks at several: the walk ends before their number has doubled.
            SELECT array_agg(y.place) FILTER (WHERE y.decided < in_moment - 60000000), count(*),
                   (array_agg(y.lane ORDER BY y.lane DESC))[1]
            INTO old, seen, l.lanes_up
            FROM (
                SELECT a.ctid AS place, a.lane, a.decided FROM stanchion.limit_answers AS a
                WHERE a.limiter = l.id AND a.lane > coalesce(l.lanes_up, '00000000-0000-0000-0000-000000000000')
                ORDER BY a.lane LIMIT looks
            ) AS y;
            IF old <> '{}' THEN
                DELETE FROM stanchion.limit_answers AS a WHERE a.ctid = ANY (old);
                l.lanes := l.lanes - cardinality(old);
            END IF;
            IF seen < looks THEN
                l.roomy := 2 * l.lanes + 8;
                l.lanes_up := NULL;
            END IF;
        END IF;
    ELSE
        UPDATE stanchion.limit_answers AS a
        SET number = in_number, decided = in_moment, answer = told
        WHERE a.limiter = l.id AND a.lane = in_lane;
    END IF;
    PERFORM stanchion.limit_save(l, in_retention);
    RETURN told;
END
$$;
