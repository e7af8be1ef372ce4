-- open_namespace: writes the mutex mode and the layout of a namespace, unless they are there. The
-- first caller decides.
--
-- Arguments   the namespace; the mutex mode and the layout for a new one
-- Returns     the mode and layout in force
-- Locks       only the row that it adds
-- Complexity  O(log namespaces)
-- Retry       finds the row and changes nothing
CREATE OR REPLACE FUNCTION stanchion.open_namespace(
    new_namespace text, new_mode text, new_layout integer, OUT mutex_mode text, OUT layout integer
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE AS $$
BEGIN
    SELECT n.mutex_mode, n.layout INTO open_namespace.mutex_mode, open_namespace.layout
        FROM stanchion.namespaces n WHERE n.namespace = new_namespace;
    IF FOUND THEN
        RETURN;
    END IF;
    INSERT INTO stanchion.namespaces (namespace, mutex_mode, layout)
        VALUES (new_namespace, new_mode, new_layout) ON CONFLICT (namespace) DO NOTHING;
    -- Another transaction may have been faster: only a new statement sees its row.
    SELECT n.mutex_mode, n.layout INTO open_namespace.mutex_mode, open_namespace.layout
        FROM stanchion.namespaces n WHERE n.namespace = new_namespace;
END
$$;
