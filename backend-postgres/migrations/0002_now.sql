-- The time of this server, in µs since 1970: always the moment of the call, whenever the transaction began.
CREATE OR REPLACE FUNCTION stanchion.now() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
