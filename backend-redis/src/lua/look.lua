-- look: reads the state of groups, and notes watchers of the end of an open generation.
--
-- ARGV     for each entry: the generation waited for, 0 for the open one, or empty to ask only; the
--          hint
-- Returns  {epoch, count, generation, next} while the generation is open; next: in how long a lease
--          ends (-1: none)
--          {epoch, count, generation, next, finished, abandoned, expired} once it has ended
-- Complexity  O(log E + log V).
-- Retry    asks again.

return run(2, function(o, at)
  local watch, watcher = tonumber(ARGV[at + 1]), PROCESS .. ':' .. ARGV[at + 2]
  -- First of all, before anything is changed: V may hold a foreign type.
  local noted = watch and tonumber(call('ZSCORE', o.v, watcher) or 0)
  if not load(o, '') then return { -2 } end
  local next = o.next < NEVER and o.next - now or -1
  local answer = { o.epoch, o.used, o.gen, next }
  local asked = watch and watch > 0 and math.min(watch, o.gen) or o.gen
  if not o.open or asked < o.gen then
    for _, number in ipairs(outcome_of(o, asked)) do answer[#answer + 1] = number end
  elseif watch and math.abs(now - noted) >= WATCH then
    call('ZADD', o.v, NOW, watcher)
    call('ZREMRANGEBYSCORE', o.v, '-inf', int(now - WATCH_MS * 1000))
    call('PEXPIRE', o.v, WATCH_MS)
  end
  return answer
end)
