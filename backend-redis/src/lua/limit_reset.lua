-- limit_reset: fills the bucket and forgets the reservations. A name without a bucket stays without
-- one.
--
-- The latest time seen stays, and so do the refunds of the last 60 s.
--
-- ARGV     for each limiter: nothing
-- Returns  {}   {-2} there are more reservations to forget: to be sent again at once
-- Complexity  O(reservations · log Z), a part of them in one call.
-- Retry    fills it again.

return run(function() return 0 end, function(o)
  load(o, 'a')
  if not o.q then return {} end
  if o.summary then
    forget(o, '(0', '+inf')
    if budget <= 0 then
      recount(o)
      save(o)
      return { -2 }
    end
    o.latest = 0
    recount(o)
  end
  fill(o, o.q)
  o.expires_at = 0
  save(o)
  return {}
end)
