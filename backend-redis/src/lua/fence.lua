-- fence: the resource side of fencing; put in front of a script that writes.
--
-- fenced(mark, token, ticket) returns whether the holder of the token may write. If so, it notes
-- the holder as the newest. Call it before the first write, with a declared key for the mark: a
-- string "TOKEN TICKET" without expiry.
-- Complexity  O(1).
-- Retry       the same token from the same ticket may write again.

local function fenced(mark, token, ticket)
  local seen = redis.call('GET', mark)
  if seen then
    local largest, owner = string.match(seen, '^(%d+) (%x+)$')
    if not largest then error({ err = 'FENCE the mark is not one of ours' }) end
    if tonumber(token) < tonumber(largest) then return false end
    if tonumber(token) == tonumber(largest) and ticket ~= owner then return false end
  end
  redis.call('SET', mark, token .. ' ' .. ticket)
  return true
end

