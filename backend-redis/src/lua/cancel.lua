-- cancel: withdraws acquisitions, whatever their state is.
--
-- It ends a hold, gives up a place in the queue, and leaves a tombstone in every case: a copy of
-- the acquire that a retry overtook may still be under way. A cancelled member of a wait group is
-- not counted as a member.
--
-- ARGV     for each entry: ticket, lease of the tombstone
-- Returns  {} for each entry
-- Complexity  O(log E + log Q).
-- Retry    changes nothing but the tombstone's time.

return run(2, function(o, at)
  local ticket = ARGV[at + 1]
  if not load(o, ticket) then return { -2 } end
  if o.hold then free(o) else leave(o) end
  leave_tombstone(o, ticket, tonumber(ARGV[at + 2]))
  return {}
end, true)
