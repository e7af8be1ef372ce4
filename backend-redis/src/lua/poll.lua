-- poll: marks the waiters of the process as live, and finds which of them are next.
--
-- ARGV     for each entry: nothing
-- Returns  {epoch, next, first, ticket, ...}: when the record was made; in how long the next hold
--          ends, or the liveness of a waiter of another process in front (-1: neither); whether the
--          first of the queue is of the process, or another process is about to take what is free,
--          and may not keep it for long (1 or 0); and the tickets of the process that are next
-- Complexity  O(log E + log Q + waiters passed over or served).
-- Retry    asks again.

-- Whether the first of the queue is of the asking process.
local function is_first(o)
  local ticket = call('ZRANGE', o.q, 0, 0)[1]
  local place = ticket and call('HGET', o.h, 'w' .. ticket)
  return place and string.match(place, '^%x+') == PROCESS
end

return run(0, function(o)
  if not load(o, '') then return { -2 } end
  more(o)
  put_back(o)
  mark_live(o, o.wl)
  if o.aside then return { -2 } end
  if not o.lim then return { o.epoch, -1, 0 } end
  local ready, soon, others = next_grants(o, PROCESS, o.wake)
  if o.unfinished then return { -2 } end
  -- The waiters were told. What has no waiters may become a string again.
  o.wake = o.n == 0
  o.lease = math.max(o.lease, o.wl)
  o.keep = o.n > 0
  local next = math.min(o.next, soon)
  local answer = { o.epoch, next < NEVER and math.max(next - now, 0) or -1, (others or is_first(o)) and 1 or 0 }
  for i, ticket in ipairs(ready) do answer[3 + i] = ticket end
  return answer
end)
