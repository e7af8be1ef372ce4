-- limit_set_quota: changes the quota for everybody; a name without a bucket gets a full one.
--
-- What is in the bucket stays, its fraction rounded down and at most the new burst; reservations keep their times.
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
