-- poll: says that the process's waiters live, and asks whose turn it is.
--
-- ARGV     for each entry: nothing
-- Returns  {born, next, ticket, ...}: when the record was made, in how long the next hold or the liveness of another's
--          waiter in front ends (-1: neither), and the process's waiters whose turn it is
-- Complexity  O(log E + log Q + waiters passed over or served).
-- Retry    asks again.

return run(0, function(o)
  load(o, '')
  more(o)
  mark_live(o, o.wl)
  if not o.lim then return { o.epoch, -1 } end
  local ready, soon = next_grants(o, PROCESS, o.wake)
  o.wake = false
  o.lease = math.max(o.lease, o.wl)
  o.keep = o.n > 0
  local next = math.min(o.next, soon)
  local answer = { o.epoch, next < NEVER and math.max(next - now, 0) or -1 }
  for i, ticket in ipairs(ready) do answer[2 + i] = ticket end
  return answer
end)
