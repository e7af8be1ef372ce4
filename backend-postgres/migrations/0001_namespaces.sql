-- What is in use here: one row for each namespace, written by the first store that connects with it.
CREATE TABLE stanchion.namespaces (
    namespace text COLLATE "C" PRIMARY KEY,
    -- What keeps its mutexes: `session` or `lease`. The two must never guard the same name.
    mutex_mode text NOT NULL CHECK (mutex_mode IN ('session', 'lease')),
    -- How its rows are to be read.
    layout integer NOT NULL,
    created timestamptz NOT NULL DEFAULT clock_timestamp()
);
