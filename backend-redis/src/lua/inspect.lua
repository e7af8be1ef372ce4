-- inspect: the state of objects at this instant.
--
-- ARGV     for each entry: nothing
-- Returns  {now, limit or 0, waiters, ticket, hold, ticket, hold, ...}, a hold as in H
-- Complexity  O(E).
-- Retry    asks again.

return run(0, function(o)
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
