-- untidy: ends a step that cannot be decided before `tidy` has gone on at one of its objects. The
-- step changes nothing.
CREATE OR REPLACE FUNCTION stanchion.untidy() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'STM01', MESSAGE = 'more has ended at a name than one step removes';
END
$$;
