-- force: frees holds of any holder, and wakes the waiters that then fit.
--
-- A freed ticket leaves a tombstone for the rest of its lease: a late copy of its acquire must not give the holder another
-- hold, with another token, which the renewals of the holder would keep.
--
-- ARGV     for each entry: the ticket, or empty for all
-- Returns  {count}: how many holds were freed
-- Complexity  O(log E) for one, O(E · log E) for all.
-- Retry    finds nothing left to free; holds granted in between are freed by a retry for all.

return run(1, function(o, at)
  local ticket = ARGV[at + 1]
  load(o, ticket)
  if ticket ~= '' then
    if not o.hold then return { 0 } end
    local left = tonumber(string.match(o.hold, '^%d+')) - now
    free(o, 'abandoned')
    leave_tombstone(o, ticket, left)
    return { 1 }
  end
  local tickets, freed = {}, 0
  local members = call('ZRANGE', o.e, 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    if #members[i] == 32 then tickets[members[i]] = members[i + 1] - now end
  end
  for member, left in pairs(tickets) do
    call('ZREM', o.e, member)
    freed = freed + call('HDEL', o.h, 'h' .. member)
    leave_tombstone(o, member, left)
  end
  if freed > 0 then
    if o.v then count(o, 'abandoned', o.used) end
    o.used, o.touch, o.wake = 0, now, true
    put(o, 'used', '0')
    put(o, 'touch', NOW)
  end
  return { freed }
end, true)
