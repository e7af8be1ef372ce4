-- Requests to sessions to give up a mutex (`force_unlock`). Rows live for seconds.
--
-- Columns: the number of the request; the process id of the session; the mutex; the last token that
-- was drawn when the request was made, so that it does not concern later grants; whether the
-- session holds the mutex by such a later grant; and the time of the request, by which a request
-- that no caller took back is removed.
CREATE UNLOGGED TABLE stanchion.session_evictions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pid integer NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    declined boolean NOT NULL DEFAULT false,
    asked timestamptz NOT NULL
);
