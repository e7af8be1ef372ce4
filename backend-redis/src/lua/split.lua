-- split: splits holds of weight 1 off a hold, with the same token, and sets all their leases anew.
--
-- ARGV     of the one entry: from, lease, then n tickets, 500 at most
-- Returns  {1} split   {0} the hold is gone or weighs less than n, or a cancel of one of the
--          tickets came first
-- Complexity  O(n · log E).
-- Retry    finds holds under the new tickets and sets the leases anew.

return run(#ARGV - 2, function(o, at)
  local from, lease, n = ARGV[at + 1], tonumber(ARGV[at + 2]), #ARGV - at - 2
  if not load(o, from) then return { -2 } end
  local asked = {}
  for i = 1, n do
    local ticket = ARGV[at + 2 + i]
    asked[2 * i - 1], asked[2 * i] = 'h' .. ticket, 'x' .. ticket
  end
  local stored = call('HMGET', o.h, unpack(asked))
  local records, found = {}, false
  for i = 1, n do
    if stored[2 * i] then return { 0 } end
    records[i] = stored[2 * i - 1] and string.match(stored[2 * i - 1], '^%d+( .*)$')
    found = found or records[i]
  end
  local granted, weight, rest = string.match(o.hold or '', '^%d+( %d+) (%d+)( .*)$')
  local left = tonumber(weight or 0)
  if not found then
    left = left - n
    if left < 0 then return { 0 } end
    for i = 1, n do records[i] = granted .. ' 1' .. rest end
  end
  local expiry, expiries, fields = int(now + lease), {}, {}
  local function keep(ticket, record)
    expiries[#expiries + 1], expiries[#expiries + 2] = expiry, ticket
    fields[#fields + 1], fields[#fields + 2] = 'h' .. ticket, expiry .. record
  end
  for i = 1, n do
    if records[i] then keep(ARGV[at + 2 + i], records[i]) end
  end
  if left > 0 then keep(from, granted .. ' ' .. int(left) .. rest) end
  call('ZADD', o.e, unpack(expiries))
  call('HSET', o.h, unpack(fields))
  o.lease, o.keep = math.max(o.lease, lease), true
  if lease > o.el then
    o.el = lease
    put(o, 'el', int(lease))
  end
  if weight and left == 0 then
    call('ZREM', o.e, from)
    call('HDEL', o.h, 'h' .. from)
    leave_tombstone(o, from, math.max(lease, string.match(o.hold, '^%d+') - now))
  end
  if now + lease < o.next then
    o.next = now + lease
    put(o, 'next', int(o.next))
  end
  return { 1 }
end)
