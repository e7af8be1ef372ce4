-- Requests to sessions to give a mutex up (`force_unlock`). Rows live for seconds.
--
-- Columns: the request's number; the session's process id; the mutex; the last token that was drawn when it was asked, so that
-- no later grant is meant; whether the session holds it by such a grant; and when that was, by which a request that nobody
-- took back is cleared away.
CREATE UNLOGGED TABLE stanchion.session_evictions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pid integer NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    declined boolean NOT NULL DEFAULT false,
    asked timestamptz NOT NULL
);
