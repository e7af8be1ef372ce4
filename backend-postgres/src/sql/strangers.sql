-- Returns who else can have code of theirs run by the sessions that use the schema, and by which
-- right; nobody if the schema is missing. Trusted are the role of this session and those that it is
-- a member of, the owner of the database, superusers, and {owner}, a literal, as is {schema}. What
-- a superuser may do counts for nothing: he is a member of every role.
SET LOCAL search_path = pg_catalog, pg_temp;
WITH RECURSIVE mine (role) AS (
    SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user
    UNION
    SELECT m.roleid FROM mine JOIN pg_auth_members m ON m.member = mine.role
), trusted (role) AS (
    SELECT role FROM mine
    UNION ALL SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()
    UNION ALL SELECT r.oid FROM pg_roles r WHERE r.rolsuper OR r.rolname IN ('pg_database_owner', {owner})
), schema (id, owner, acl) AS (
    SELECT n.oid, n.nspowner, n.nspacl FROM pg_namespace n WHERE n.nspname = {schema}
), found (role, may) AS (
    SELECT s.owner, 'owns it' FROM schema s
    UNION ALL
    SELECT a.grantee, 'may create in it' FROM schema s, aclexplode(s.acl) a WHERE a.privilege_type = 'CREATE'
    UNION ALL
    SELECT p.proowner, 'owns its function ' || p.proname FROM schema s JOIN pg_proc p ON p.pronamespace = s.id
    UNION ALL
    SELECT c.relowner, 'owns its relation ' || c.relname FROM schema s JOIN pg_class c ON c.relnamespace = s.id
    UNION ALL
    SELECT a.grantee, 'may make triggers on its table ' || c.relname
    FROM schema s JOIN pg_class c ON c.relnamespace = s.id, aclexplode(c.relacl) a WHERE a.privilege_type = 'TRIGGER'
)
SELECT coalesce(r.rolname, 'everybody'), f.may
FROM found f LEFT JOIN pg_roles r ON r.oid = f.role
WHERE NOT EXISTS (SELECT FROM trusted t WHERE t.role = f.role)
ORDER BY 1, 2 LIMIT 1
