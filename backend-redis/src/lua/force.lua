-- force: frees holds, whoever has them, and wakes whom that lets in.
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
    free(o)
    return { 1 }
  end
  local tickets, count = {}, 0
  for _, member in ipairs(call('ZRANGE', o.e, 0, -1)) do
    if #member == 32 then tickets[#tickets + 1] = member end
  end
  for _, member in ipairs(tickets) do
    call('ZREM', o.e, member)
    count = count + call('HDEL', o.h, 'h' .. member)
  end
  if count > 0 then
    o.used, o.touch, o.wake = 0, now, true
    put(o, 'used', '0')
    put(o, 'touch', NOW)
  end
  return { count }
end)
