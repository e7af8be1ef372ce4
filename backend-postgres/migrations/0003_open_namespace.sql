-- Says how a namespace is kept; the first one to ask decides.
--
-- Arguments: the namespace; the mutex mode and the layout for a new one. Returns: those in force, one row.
-- Locks: none but that of a row which it adds. O(log n). A retry finds the row and changes nothing.
CREATE FUNCTION stanchion.open_namespace(
    new_namespace text, new_mode text, new_layout integer, OUT mutex_mode text, OUT layout integer
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT n.mutex_mode, n.layout INTO open_namespace.mutex_mode, open_namespace.layout
        FROM stanchion.namespaces n WHERE n.namespace = new_namespace;
    IF FOUND THEN
        RETURN;
    END IF;
    INSERT INTO stanchion.namespaces (namespace, mutex_mode, layout)
        VALUES (new_namespace, new_mode, new_layout) ON CONFLICT (namespace) DO NOTHING;
    -- Another may have been faster: its row is seen by a new statement.
    SELECT n.mutex_mode, n.layout INTO open_namespace.mutex_mode, open_namespace.layout
        FROM stanchion.namespaces n WHERE n.namespace = new_namespace;
END
$$;
