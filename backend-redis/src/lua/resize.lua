-- resize: sets the limit for all processes. It wakes the waiters that fit now, and those that never
-- will.
--
-- ARGV     for each entry: limit
-- Returns  {} for each entry
-- Complexity  O(waiters told), a part of them where they are many.
-- Retry    sets the same limit.

return run(1, function(o, at)
  if not load(o, '') then return { -2 } end
  local lim = tonumber(ARGV[at + 1])
  if lim ~= o.lim then let_anew(o) end
  o.lim, o.wake = lim, true
  put(o, 'lim', o.lim)
  -- Without a hold the retention of the limit counts from now.
  o.touch = now
  put(o, 'touch', NOW)
  return {}
end)
