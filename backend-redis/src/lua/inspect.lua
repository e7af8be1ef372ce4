-- inspect: the state of objects at this instant.
--
-- ARGV     for each entry: nothing
-- Returns  {now, limit or 0, waiters, ticket, hold, ticket, hold, ...}, a hold as in H
-- Complexity  O(E).
-- Retry    asks again.

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
  local answer = { now, (not stale(o) and o.lim) or 0, o.n + o.out }
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
