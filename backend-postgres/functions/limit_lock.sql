-- limit_lock: locks the rows of limiters. Makes missing rows first, if it is told to.
--
-- The names are locked strictly one after the other, so that two batches in the same order cannot
-- deadlock.
--
-- Arguments   namespace; names, distinct, in the order of their bytes; whether missing rows are
--             made
-- Returns     the rows, in that order; null for a missing one
-- Locks       rows of `limiters`, in that order
-- Complexity  O(names)
-- Retry       makes no row twice
CREATE OR REPLACE FUNCTION stanchion.limit_lock(in_namespace text, in_names text[], in_making boolean)
RETURNS stanchion.limiters[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    rows stanchion.limiters[];
    found_row stanchion.limiters;
    patience text;
    missed boolean;
    hurried CONSTANT timestamptz := statement_timestamp() + interval '20 ms';
BEGIN
    PERFORM stanchion.enter();
    patience := current_setting('lock_timeout');
    FOR i IN 1 .. cardinality(in_names) LOOP
        missed := false;
        LOOP
            SELECT l.* INTO found_row FROM stanchion.limiters AS l
            WHERE l.namespace = in_namespace AND l.name = in_names[i]
            FOR UPDATE;
            EXIT WHEN FOUND OR NOT in_making;
            IF missed THEN
                -- As in `claim`.
                PERFORM stanchion.pass_ids('limiters');
            END IF;
            INSERT INTO stanchion.limiters AS l (namespace, name)
            VALUES (in_namespace, in_names[i])
            ON CONFLICT DO NOTHING
            RETURNING l.* INTO found_row;
            EXIT WHEN FOUND;
            missed := true;
        END LOOP;
        rows[i] := found_row;
        IF clock_timestamp() > hurried THEN
            PERFORM stanchion.hurry(patience);
        END IF;
    END LOOP;
    RETURN rows;
END
$$;
