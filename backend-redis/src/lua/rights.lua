-- rights: finds the commands that the user may not run. It is called when a server before 7.2 has
-- refused a script without naming the command.
--
-- KEYS     1 one of the keys that the refused script was called with
-- ARGV     commands
-- Returns  the commands that may not be run; none if the server cannot tell, as before 7.0
-- Complexity  O(commands).
-- Retry    asks again.

local missing = {}
for _, command in ipairs(redis.acl_check_cmd and ARGV or {}) do
  if not redis.acl_check_cmd(command, KEYS[1]) then missing[#missing + 1] = command end
end
return missing
