-- limit_set_quota: changes the quota for all processes. A name without a bucket gets a full one.
--
-- The bucket keeps its tokens, at most the new burst; their fraction is rounded down to the new
-- unit. Reservations keep their times.
--
-- ARGV     for each limiter: amount, period, burst
-- Returns  {}
-- Complexity  O(1).
-- Retry    sets the same quota again, which changes nothing.

return run(function() return 3 end, function(o, at)
  local quota = { amount = tonumber(ARGV[at]), period = tonumber(ARGV[at + 1]), burst = tonumber(ARGV[at + 2]) }
  load(o, 'a')
  if o.q then convert(o, quota) else fill(o, quota) end
  o.expires_at = 0
  save(o)
  return {}
end)
