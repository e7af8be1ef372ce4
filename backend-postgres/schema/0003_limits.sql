-- The tables of limiters: their buckets, their reservations, and their last answers.
--
-- Times are µs of this server's clock. The content of a bucket is a number of whole tokens,
-- negative while reservations are ahead, and a fraction in units of `1 / period` token, as in
-- `stanchion_core::limiter::Bucket`. No stored time is scaled by a rate.

-- One row for each limiter. A transaction that changes any row of a limiter, here or below, holds
-- the lock of this row.
CREATE TABLE stanchion.limiters (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- The quota in lowest terms; null if there is no bucket, but only a ticket whose cancel came
    -- before its reserve.
    amount bigint,
    period bigint,
    burst bigint,
    tokens bigint NOT NULL DEFAULT 0,
    fraction bigint NOT NULL DEFAULT 0,
    -- The latest time seen.
    last bigint NOT NULL DEFAULT 0,
    -- The time of the last reservation ahead, and the cost that was taken since there was last none
    -- ahead.
    latest bigint NOT NULL DEFAULT 0,
    taken bigint NOT NULL DEFAULT 0,
    -- When tickets whose time has come are removed next; null if there are no tickets.
    purge bigint,
    -- Number of lanes with answers, and the number of lanes at which old answers are removed.
    lanes bigint NOT NULL DEFAULT 0,
    roomy bigint NOT NULL DEFAULT 8,
    -- From this time on, the row means the same as no row.
    expires bigint NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
) WITH (fillfactor = 50);

-- For the sweep only, as `objects_expires`.
CREATE INDEX limiters_expires ON stanchion.limiters (namespace, expires) WHERE expires >= 0;

-- Tickets: a reservation until its time comes, or a cancelled one for 60 s, with the tokens that it
-- gave back. A row stays for about one more second, and has no meaning then.
CREATE TABLE stanchion.limit_tickets (
    limiter bigint NOT NULL,
    ticket uuid NOT NULL,
    until bigint NOT NULL,
    cost bigint NOT NULL,
    -- The limiter's `taken` just after the reservation.
    mark bigint NOT NULL,
    -- The tokens that a cancelled reservation gave back; null for a reservation.
    refund bigint,
    PRIMARY KEY (limiter, ticket)
);

CREATE INDEX limit_tickets_ahead ON stanchion.limit_tickets (limiter, until) WHERE refund IS NULL;
CREATE INDEX limit_tickets_cancelled ON stanchion.limit_tickets (limiter, until) WHERE refund IS NOT NULL;

-- The last answer to each lane, as `limit_decide` gives it, for at least 60 s. It is not
-- compressed: that costs more than it saves.
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
