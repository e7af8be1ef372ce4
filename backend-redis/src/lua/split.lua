-- split: makes one hold of weight n into n of weight 1, with the same token and leases anew.
--
-- ARGV     of the one entry: from, lease, then the n tickets
-- Returns  {1} split   {0} the hold is gone, or a cancel of one of the tickets came first
-- Complexity  O(n · log E).
-- Retry    finds holds under the new tickets and sets their leases anew.

return run(#ARGV - 3, function(o, at)
  local from, lease, total = ARGV[at + 1], tonumber(ARGV[at + 2]), #ARGV - at - 2
  load(o, from)
  -- In pieces: the arguments of one call are bounded.
  local function pieces(visit)
    for first = 1, total, 500 do
      local tickets, fields = {}, {}
      for i = first, math.min(first + 499, total) do tickets[#tickets + 1] = ARGV[at + 2 + i] end
      visit(tickets, fields)
    end
  end
  local cancelled, found = false, {}
  pieces(function(tickets, fields)
    for i, ticket in ipairs(tickets) do fields[2 * i - 1], fields[2 * i] = 'h' .. ticket, 'x' .. ticket end
    local r = call('HMGET', o.h, unpack(fields))
    for i, ticket in ipairs(tickets) do
      cancelled = cancelled or r[2 * i]
      found[ticket] = r[2 * i - 1] and string.match(r[2 * i - 1], '^%d+( .*)$')
    end
  end)
  local weight = o.hold and tonumber(string.match(o.hold, '^%d+ %d+ (%d+)'))
  if cancelled or (o.hold and weight ~= total) then return { 0 } end
  local granted, rest = string.match(o.hold or '', '^%d+( %d+) %d+( .*)$')
  local part, split = granted and granted .. ' 1' .. rest, 0
  pieces(function(tickets, fields)
    local expiries = {}
    for _, ticket in ipairs(tickets) do
      local record = part or found[ticket]
      if record then
        expiries[#expiries + 1] = int(now + lease)
        expiries[#expiries + 1] = ticket
        fields[#fields + 1] = 'h' .. ticket
        fields[#fields + 1] = int(now + lease) .. record
      end
    end
    if fields[1] then
      split = split + #fields / 2
      call('ZADD', o.e, unpack(expiries))
      call('HSET', o.h, unpack(fields))
    end
  end)
  if split == 0 then return { 0 } end
  o.lease, o.keep = math.max(o.lease, lease), true
  if o.hold then
    local left = string.match(o.hold, '^%d+') - now
    call('ZREM', o.e, from)
    call('HDEL', o.h, 'h' .. from)
    leave_tombstone(o, from, math.max(lease, left))
  end
  if now + lease < o.next then
    o.next = now + lease
    put(o, 'next', int(o.next))
  end
  return { 1 }
end)
