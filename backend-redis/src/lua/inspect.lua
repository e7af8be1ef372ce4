-- inspect: the state of objects at this instant. It writes nothing but the end of what has expired.
--
-- ARGV     for each entry: nothing
-- Returns  {now, limit or 0, waiters, ticket, hold, ticket, hold, ...}, a hold as in H
-- Complexity  O(E), and for the waiters O(min(Q, 1,000)).
-- Retry    asks again.

-- Maximum number of places that one call judges. Those behind them all count.
local places = 1000

-- Returns how many of the first places in the queue are lost.
local function lost_in_queue(o)
  local lost, at, most = 0, 0, math.min(o.n, places)
  places = places - most
  while at < most do
    local last = math.min(at + 500, most) - 1
    lost = lost + lost_places(o.h, o.live, call('ZRANGE', o.q, at, last), now)
    at = last + 1
  end
  return lost
end

return run(0, function(o)
  -- A look at a short form writes nothing.
  local short = short_form(o)
  if short then
    local forgotten = short.used == 0 and now - short.touch > STATE
    local answer = { now, forgotten and 0 or short.lim, 0 }
    for _, hold in ipairs(short.holds) do
      answer[#answer + 1], answer[#answer + 2] = hold.ticket, hold_text(hold)
    end
    return answer
  end
  if not load(o, '') then return { -2 } end
  local answer = { now, (not stale(o) and o.lim) or 0, o.n + o.out - lost_in_queue(o) }
  local at = 0
  repeat
    local members = call('ZRANGE', o.e, at, at + 499)
    local tickets, fields = {}, {}
    for _, member in ipairs(members) do
      if #member == 32 then
        tickets[#tickets + 1] = member
        fields[#fields + 1] = 'h' .. member
      end
    end
    if fields[1] then
      for i, hold in ipairs(call('HMGET', o.h, unpack(fields))) do
        if hold then
          answer[#answer + 1] = tickets[i]
          answer[#answer + 1] = hold
        end
      end
    end
    at = at + 500
  until #members < 500
  return answer
end)
