-- release: ends holds and wakes whom that lets in.
--
-- ARGV     for each entry: ticket, tombstone (how long, or 0 for none), ending of a member
--          (`finished` or `abandoned`), the call whose tombstone it is, or empty
-- Returns  {1} the hold was there   {0} it was gone
-- Complexity  O(log E); with a queue O(log Q + waiters passed over or woken).
-- Retry    finds the hold gone and changes nothing but the tombstone's time. With a call it finds
--          the tombstone that the call left and gives the same answer.

return run(4, function(o, at)
  local ticket, tombstone, by = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 4]
  if not load(o, ticket) then return { -2 } end
  if by ~= '' then
    if not o.hold then return { o.tombstone == by and 1 or 0 } end
    leave_tombstone(o, ticket, tombstone, by)
  elseif tombstone > 0 then
    leave_tombstone(o, ticket, tombstone)
  end
  if not o.hold then return { 0 } end
  free(o, ARGV[at + 3])
  return { 1 }
end, true)
