-- Returns who else can have code of theirs run by the sessions that use the schema, and by which
-- right; nobody if the schema is missing. Trusted are the role of this session and those whose
-- rights it has, the owner of the database and the role that the user has named with all who have
-- the rights of one of these, and superusers. What a superuser may do counts for nothing: he has
-- the rights of every role.
SET LOCAL search_path = pg_catalog, pg_temp;
WITH RECURSIVE membership (role, member) AS (
    -- From Postgres 16 on, who makes a role is a member of it, and need not have its rights.
    SELECT m.roleid, m.member FROM pg_auth_members m
    WHERE coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)
       OR coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
), mine (role) AS (
    SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user
    UNION
    SELECT m.role FROM mine JOIN membership m ON m.member = mine.role
), named (role) AS (
    SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()
    UNION
    SELECT r.oid FROM pg_roles r WHERE r.rolname = {owner}
    UNION
    SELECT m.member FROM named JOIN membership m ON m.role = named.role
), trusted (role) AS (
    SELECT role FROM mine
    UNION ALL SELECT role FROM named
    UNION ALL SELECT r.oid FROM pg_roles r WHERE r.rolsuper OR r.rolname = 'pg_database_owner'
), schema (id, owner, acl) AS (
    SELECT n.oid, n.nspowner, n.nspacl FROM pg_namespace n WHERE n.nspname = {schema}
), relations (id, name, owner, acl) AS (
    SELECT c.oid, c.relname, c.relowner, c.relacl FROM schema s JOIN pg_class c ON c.relnamespace = s.id
), found (role, may) AS (
    SELECT s.owner, 'owns it' FROM schema s
    UNION ALL
    SELECT a.grantee, 'may create in it' FROM schema s, aclexplode(s.acl) a WHERE a.privilege_type = 'CREATE'
    UNION ALL
    SELECT p.proowner, 'owns its function ' || p.proname FROM schema s JOIN pg_proc p ON p.pronamespace = s.id
    UNION ALL
    SELECT c.owner, 'owns its relation ' || c.name FROM relations c
    UNION ALL
    SELECT p.proowner, 'owns a trigger on its table ' || c.name
    FROM relations c JOIN pg_trigger t ON t.tgrelid = c.id JOIN pg_proc p ON p.oid = t.tgfoid
    UNION ALL
    -- A foreign key to a row that is deleted runs what its own table has for that.
    SELECT a.grantee, 'may make triggers or foreign keys on its table ' || c.name
    FROM (SELECT r.name, r.acl FROM relations r
          UNION ALL
          SELECT r.name, f.attacl FROM relations r JOIN pg_attribute f ON f.attrelid = r.id) c,
         aclexplode(c.acl) a
    WHERE a.privilege_type IN ('TRIGGER', 'REFERENCES')
)
SELECT coalesce(r.rolname, 'everybody'), f.may
FROM found f LEFT JOIN pg_roles r ON r.oid = f.role
WHERE NOT EXISTS (SELECT FROM trusted t WHERE t.role = f.role)
ORDER BY 1, 2 LIMIT 1
