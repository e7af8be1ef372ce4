-- Who of a queue was let in, so that nobody is told twice of the same room, and nobody looks at
-- those in front again: see `let_in`. A mutex, which lets one in at a time, has zeros.
--
-- All waiters up to the arrival number `let_up` that were live and are not larger than the limit
-- were let in; `let_due` of them have not come, whose weights add up to `let_room`. `let_told` is
-- how many had not come when some were let in last: when half of them have come, the next are let
-- in. While some may be larger than the limit, `let_over` is up to which number those were told in
-- this round, and `let_most` the largest weight in it so far.
ALTER TABLE stanchion.objects
    ADD COLUMN let_up bigint NOT NULL DEFAULT 0,
    ADD COLUMN let_room bigint NOT NULL DEFAULT 0,
    ADD COLUMN let_due bigint NOT NULL DEFAULT 0,
    ADD COLUMN let_told bigint NOT NULL DEFAULT 0,
    ADD COLUMN let_over bigint NOT NULL DEFAULT 0,
    ADD COLUMN let_most bigint NOT NULL DEFAULT 0;

-- Functions that knew nothing of that.
DROP FUNCTION IF EXISTS stanchion.next_grants(stanchion.objects, bigint, uuid, uuid, boolean);
DROP FUNCTION IF EXISTS stanchion.front(stanchion.objects, bigint, uuid, integer);
