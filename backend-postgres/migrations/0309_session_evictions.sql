-- Requests to sessions to give a mutex up (`force_unlock`). Rows live for seconds.
CREATE UNLOGGED TABLE stanchion.session_evictions (
    pid integer NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    asked timestamptz NOT NULL
);
