-- The secret of the locks of mutexes: whoever chooses a name cannot choose its lock
-- (`session_key`). It is made once for each schema, and goes with a dump of it. The locks of before
-- are not those of after: nobody may hold a mutex by a session, or by a transaction, meanwhile.
DO $$
BEGIN
    EXECUTE format(
        'CREATE FUNCTION stanchion.session_secret() RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %L::bytea',
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
END
$$;
