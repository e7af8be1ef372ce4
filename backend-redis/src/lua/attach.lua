-- attach: takes over a detached hold under another ticket. Token, weight and time of grant are
-- kept.
--
-- ARGV     for each entry: from, to, lease, label (a space and the text, or empty to keep it)
-- Returns  {1, token, weight} taken over, of a wait group {1, token, weight, epoch}   {0} it is
--          gone
-- Complexity  O(log E).
-- Retry    finds the hold under the new ticket and gives the same answer with the lease anew.

return run(4, function(o, at)
  local from, to, lease = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  if not load(o, to) then return { -2 } end
  if o.tombstone then return { 0 } end
  if not o.hold then
    local hold = call('HGET', o.h, 'h' .. from)
    if not hold then return { 0 } end
    call('ZREM', o.e, from)
    call('HDEL', o.h, 'h' .. from)
    leave_tombstone(o, from, math.max(lease, string.match(hold, '^%d+') - now))
    o.hold = ARGV[at + 4] == '' and hold or string.match(hold, '^%d+ %d+ %d+ %d+') .. ARGV[at + 4]
  end
  local weight, token = extend(o, lease)
  return { 1, token, weight, epoch_of(o) }
end)
