-- rights: which commands the user may not run; asked when a server before 7.2 refused a script without saying which.
--
-- KEYS     1 one that the refused script was called with
-- ARGV     commands
-- Returns  those that are missing; none where the server cannot tell, as before 7.0
-- Complexity  O(commands).
-- Retry    asks again.

local missing = {}
for _, command in ipairs(redis.acl_check_cmd and ARGV or {}) do
  if not redis.acl_check_cmd(command, KEYS[1]) then missing[#missing + 1] = command end
end
return missing
