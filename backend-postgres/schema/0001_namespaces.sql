-- One row for each namespace in use, written by the first store that connects with it.
CREATE TABLE stanchion.namespaces (
    namespace text COLLATE "C" PRIMARY KEY,
    -- The mutex mode: `session` or `lease`. The two modes must never guard the same name.
    mutex_mode text NOT NULL CHECK (mutex_mode IN ('session', 'lease')),
    -- The layout of the rows of the namespace.
    layout integer NOT NULL,
    created timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row: the functions of this schema, the version of the library that wrote them, and the oldest
-- version that works with this schema and these functions.
CREATE TABLE stanchion.library (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    functions bytea NOT NULL,
    version text NOT NULL,
    oldest text NOT NULL
);
