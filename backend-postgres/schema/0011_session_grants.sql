-- Who holds mutexes by the locks of sessions, for others to see. A row is written behind, once a
-- hold is a while old, and is nothing without the lock of its session.
--
-- Columns: the mutex; the process id of the session and its start, since the server uses these ids
-- again; the ticket and token of the grant; its time; the label.
CREATE UNLOGGED TABLE stanchion.session_grants (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    pid integer NOT NULL,
    started timestamptz NOT NULL,
    ticket uuid NOT NULL,
    token bigint NOT NULL,
    granted bigint NOT NULL,
    label text,
    PRIMARY KEY (namespace, name)
);
ALTER TABLE stanchion.session_grants SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- These have other arguments or columns now.
DROP FUNCTION IF EXISTS stanchion.session_step(text, uuid, text[], uuid[], text[], uuid[], boolean);
DROP FUNCTION IF EXISTS stanchion.session_free(text, text, uuid);
DROP FUNCTION IF EXISTS stanchion.session_holders(text, text);
