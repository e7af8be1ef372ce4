-- limit_refund: cancels reservations, and returns how much each gave back.
--
-- The refund of a ticket is remembered for 60 s. So is an unknown ticket: its reserve may still be
-- under way, and is refused when it arrives.
--
-- ARGV     for each limiter: ticket
-- Returns  {tokens}
-- Complexity  O(log Z).
-- Retry    gets the answer of the first time, for 60 s.

-- Removes an outstanding reservation from the bucket. Returns how much it gives back.
local function cancel(o, ticket, entry)
  local cost, behind, refund = entry[2], max(o.taken - entry[3], 0), 0
  if behind == 0 then
    o.taken = max(o.taken - cost, 0)
    refund = cost
  else
    local rounding = ceil((o.q.amount - 1) / o.q.period)
    refund = max(min(cost, max(o.q.burst - rounding, 0)) - behind, 0)
  end
  if entry[1] == o.latest then
    local last = call('ZREVRANGE', o.z, 0, 1, 'WITHSCORES')
    o.latest = tonumber(last[last[1] == ticket and 4 or 2]) or 0
    if not ahead(o) then o.taken, o.latest = 0, 0 end
  end
  if o.t + refund >= o.q.burst then
    o.t, o.f = o.q.burst, 0
  else
    o.t = o.t + refund
  end
  return refund
end

return run(function() return 1 end, function(o, at)
  local ticket = ARGV[at]
  load(o, 'a')
  look(o, { ticket })
  local entry, refund = o.entries[ticket], 0
  if entry and not entry[2] then
    save(o)
    return { entry[1] }
  end
  -- One whose time has come is as one that is not known.
  if entry and o.q and entry[1] > o.last then refund = cancel(o, ticket, entry) end
  mark(o, ticket, -(o.last + ANSWERS))
  put(o, ticket, { refund })
  save(o)
  return { refund }
end)
