-- renew: sets the leases of holds anew.
--
-- ARGV     for each entry: ticket, lease
-- Returns  {1} the hold was there and has its new lease   {0} it was gone, and stays so
-- Complexity  O(log E).
-- Retry    the lease is counted from the last one.

return run(2, function(o, at)
  if not load(o, ARGV[at + 1]) then return { -2 } end
  if not o.hold then return { 0 } end
  extend(o, tonumber(ARGV[at + 2]))
  return { 1 }
end, true)
