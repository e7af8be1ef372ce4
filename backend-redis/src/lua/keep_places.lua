-- keep_places: marks a process as live, for names that no poll is due for.
--
-- Stands alone, without what the other steps share.
--
-- KEYS     `live` of each stripe
-- ARGV     1 process
-- Returns  for each stripe: 1 the process is marked; 0 it takes the step `poll`, because the
--          process was silent or is unknown, because nobody was heard for so long that a grace
--          period may have to begin, or because `live` expires soon
-- Complexity  O(log processes) for each stripe.
-- Retry    marks again.

local call, PROCESS = redis.call, ARGV[1]
-- As in `queue.lua`.
local LIVENESS, UNHEARD = 1000000, 600000

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local NOW = string.format('%d', now)

local answers = {}
for i, live in ipairs(KEYS) do
  local heard = redis.pcall('ZSCORE', live, PROCESS)
  heard = type(heard) == 'string' and tonumber(heard)
  answers[i] = 0
  if heard and math.abs(now - heard) < LIVENESS then
    local last = tonumber(call('ZREVRANGE', live, 0, 0, 'WITHSCORES')[2])
    if math.abs(now - last) < UNHEARD and call('PTTL', live) * 1000 > 2 * LIVENESS then
      call('ZADD', live, NOW, PROCESS)
      answers[i] = 1
    end
  end
end
return answers
