-- put_back: undoes grants that too little keeps: the hold ends, and its ticket waits in the queue
-- where it stood, so that nobody overtakes it.
--
-- Nobody is told: what the ticket held is what it waits for.
--
-- ARGV     for each entry: ticket, lease, the arrival number that the grant came with; empty if
--          that is unknown: then the ticket is the first
-- Returns  {1, limit, epoch} it waits   {0} the hold was gone
-- Complexity  O(log E + log Q).
-- Retry    finds it waiting.

return run(3, function(o, at)
  local lease = tonumber(ARGV[at + 2])
  if not load(o, ARGV[at + 1]) then return { -2 } end
  more(o)
  if o.hold then
    o.lease = lease
    local weight = tonumber(string.match(o.hold, '^%d+ %d+ (%d+)'))
    local was_woken = o.wake
    free(o)
    mark_live(o, lease)
    local first = tonumber(call('ZRANGE', o.q, 0, 0, 'WITHSCORES')[2])
    local number = tonumber(ARGV[at + 3]) or first and math.max(first - 1, 0) or o.seq + 1
    join(o, weight, lease, number)
    -- It does not count as let in.
    if number <= o.up then let_anew(o) end
    o.wake = was_woken
  elseif not o.place then
    return { 0 }
  end
  return { 1, o.lim, o.epoch }
end, true)
