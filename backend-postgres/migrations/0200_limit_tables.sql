-- Limiters: their buckets, what is known of reservations, and what was answered last.
--
-- Times are µs of this server's clock. A content is whole tokens, negative while reservations are ahead, and a fraction
-- in units of `1 / period` token, as in `stanchion_core::limit::Bucket`: no time is kept that was scaled by a rate.

-- A row for each limiter. Whoever changes anything of a limiter, here or below, holds the lock of its row.
CREATE TABLE stanchion.limiters (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- The quota in lowest terms; null while there is no bucket, only a ticket that was cancelled too early.
    amount bigint,
    period bigint,
    burst bigint,
    tokens bigint NOT NULL DEFAULT 0,
    fraction bigint NOT NULL DEFAULT 0,
    -- The latest time seen.
    last bigint NOT NULL DEFAULT 0,
    -- The time of the last reservation, and the cost taken since there was none ahead.
    latest bigint NOT NULL DEFAULT 0,
    taken bigint NOT NULL DEFAULT 0,
    -- When tickets whose time has come are taken out next; null if there are none.
    purge bigint,
    -- How many lanes have answers, and how many there may be before the old ones are taken out.
    lanes bigint NOT NULL DEFAULT 0,
    roomy bigint NOT NULL DEFAULT 8,
    -- From then on the row says no more than none would.
    expires bigint NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
) WITH (fillfactor = 50);

-- For the sweep alone, as `objects_expires`.
CREATE INDEX limiters_expires ON stanchion.limiters (namespace, expires) WHERE expires >= 0;

-- What is known of tickets: a reservation until its time comes, or for 60 s what a cancelled one gave back. Rows stay
-- for about a second more and say nothing then.
CREATE TABLE stanchion.limit_tickets (
    limiter bigint NOT NULL,
    ticket uuid NOT NULL,
    until bigint NOT NULL,
    cost bigint NOT NULL,
    -- `taken` just after it.
    mark bigint NOT NULL,
    -- Null while the reservation is ahead.
    refund bigint,
    PRIMARY KEY (limiter, ticket)
);

CREATE INDEX limit_tickets_ahead ON stanchion.limit_tickets (limiter, until) WHERE refund IS NULL;
CREATE INDEX limit_tickets_cancelled ON stanchion.limit_tickets (limiter, until) WHERE refund IS NOT NULL;

-- What was answered last to each lane, as `limit_decide` says, for at least 60 s. Kept as it is: packing it costs more
-- than it saves.
CREATE TABLE stanchion.limit_answers (
    limiter bigint NOT NULL,
    lane uuid NOT NULL,
    number bigint NOT NULL,
    decided bigint NOT NULL,
    answer text COLLATE "C" NOT NULL,
    PRIMARY KEY (limiter, lane)
) WITH (fillfactor = 50, toast_tuple_target = 8160);

ALTER TABLE stanchion.limit_answers ALTER COLUMN answer SET STORAGE EXTERNAL;

CREATE TYPE stanchion.limit_level AS (tokens bigint, fraction bigint);

CREATE TYPE stanchion.limit_place AS (tokens bigint, fraction bigint, ready_at bigint);
