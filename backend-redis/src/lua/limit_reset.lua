-- limit_reset: fills the bucket and forgets the reservations. A name without a bucket stays without
-- one.
--
-- The latest time seen stays, and so do the refunds of the last 60 s.
--
-- ARGV     for each limiter: nothing
-- Returns  {}
-- Complexity  O(reservations · log Z).
-- Retry    fills it again.

return run(function() return 0 end, function(o)
  load(o, 'a')
  if not o.q then return {} end
  fill(o, o.q)
  if o.summary then
    forget(o, '(0', '+inf')
    recount(o, 0)
  end
  o.expires_at = 0
  save(o)
  return {}
end)
