-- cancel: withdraws acquisitions, whatever their state is.
--
-- It ends a hold, gives up a place in the queue, and leaves a tombstone where one is asked for,
-- whatever it found: a copy of the acquire may still be under way. A cancelled member of a wait
-- group is not counted as a member.
--
-- ARGV     for each entry: ticket, tombstone (how long, or 0 for none)
-- Returns  {} for each entry
-- Complexity  O(log E + log Q).
-- Retry    changes nothing but the tombstone's time.

return run(2, function(o, at)
  local ticket, tombstone = ARGV[at + 1], tonumber(ARGV[at + 2])
  if not load(o, ticket) then return { -2 } end
  if o.hold then free(o) else leave(o) end
  if tombstone > 0 then leave_tombstone(o, ticket, tombstone) end
  return {}
end, true)
