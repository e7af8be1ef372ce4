-- poll: marks the waiters of the process as live, and finds which of them are next.
--
-- ARGV     for each entry: nothing
-- Returns  {epoch, next, first, ticket, ...}: when the record was made; in how long the next hold
--          ends, or the liveness of a waiter of another process in front (-1: neither); whether the
--          first of the queue is of the process, or another process is about to take what is free,
--          and may not keep it for long (1 or 0); and the tickets of the process that are next
-- Complexity  O(log E + log Q + waiters passed over or served).
-- Retry    asks again.

-- Maximum number of those who were let in that one call looks at.
local MOST = 250

-- Whether the first of the queue is of the asking process.
local function is_first(o)
  local ticket = call('ZRANGE', o.q, 0, 0)[1]
  local place = ticket and call('HGET', o.h, 'w' .. ticket)
  return place and string.match(place, '^%x+') == PROCESS
end

-- Finds those of the process who were let in and have not come: a hint may be lost. Silent ones
-- among those who were let in give their room back. What was kept for them is counted anew, unless
-- they are more than one call looks at.
local function look_at_let_in(o, ready)
  local soon, others, room, due, seen = NEVER, false, 0, 0, 0
  if o.up == 0 then return soon, others end
  local passed
  local all = each_waiter(o, function(w)
    passed = w.number > o.up
    if passed or seen == MOST then return true end
    seen = seen + 1
    if w.process == PROCESS then
      ready[#ready + 1] = w.ticket
    elseif w.weight <= o.lim then
      others, soon = true, math.min(soon, w.till)
    end
    if w.weight <= o.lim then room, due = room + w.weight, due + 1 end
  end, 0)
  if (all or passed) and (room ~= o.room or due ~= o.due) then
    o.room, o.due, o.relet = room, due, true
  end
  return soon, others
end

return run(0, function(o)
  if not load(o, '') then return { -2 } end
  more(o)
  put_back(o)
  mark_live(o, o.wl)
  if o.aside then return { -2 } end
  if not o.lim then return { o.epoch, -1, 0 } end
  local ready = {}
  looks = math.max(looks, FEW)
  local soon, others = look_at_let_in(o, ready)
  local next_soon, next_others = let_in(o, PROCESS, ready, o.wake or not o.mutex)
  soon, others = math.min(soon, next_soon), others or next_others
  tell_large(o, PROCESS, ready)
  -- The waiters were told. What has no waiters may become a string again.
  o.wake = o.n == 0
  o.lease = math.max(o.lease, o.wl)
  o.keep = o.n > 0
  -- What is left of a long walk is for the next poll, which is due at once.
  local next = o.unfinished and now or math.min(o.next, soon)
  local answer = { o.epoch, next < NEVER and math.max(next - now, 0) or -1, (others or is_first(o)) and 1 or 0 }
  for i, ticket in ipairs(ready) do answer[3 + i] = ticket end
  return answer
end)
