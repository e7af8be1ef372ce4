-- release: ends holds and wakes whom that lets in.
--
-- ARGV     for each entry: ticket, tombstone (how long, or 0 for none)
-- Returns  {1} the hold was there   {0} it was gone
-- Complexity  O(log E); with a queue O(log Q + waiters passed over or woken).
-- Retry    finds the hold gone and changes nothing but the tombstone's time.

return run(2, function(o, at)
  local ticket, tombstone = ARGV[at + 1], tonumber(ARGV[at + 2])
  load(o, ticket)
  if tombstone > 0 then bury(o, ticket, tombstone) end
  if not o.hold then return { 0 } end
  free(o)
  return { 1 }
end)
