-- unlock: releases mutexes that nobody waits for. See `lock` for what stands under H.
--
-- KEYS     H of each entry
-- ARGV     1 retention of tokens, unused; then for each entry: ticket
-- Returns  for each entry: 1 the hold was there; 0 the entry needs the step `release`
-- Complexity  O(1) for each entry.
-- Retry    finds the hold gone, which the step `release` answers.
-- Memory   is not needed: at `maxmemory` the server refuses a script its first write, if that may need some, but not
--          what follows another write. Setting the expiry that is there anyway is one. The key is not deleted in
--          between: on a clock that went back only the stored token keeps the next one larger (M2).

local call, sub = redis.call, string.sub
local clock = call('TIME')
local NOW = string.format('%016.0f', clock[1] * 1000000 + clock[2])

local seen, answers = {}, {}
local values = call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local key, value = KEYS[i], values[i]
  local answer = 0
  if value and not seen[key] and sub(value, 1, 32) == ARGV[i + 1] and sub(value, 51, 66) > NOW then
    local expires = sub(value, 34, 49)
    local free = '=' .. sub(value, 87, 102) .. ' ' .. expires
    if redis.pcall('SET', key, free, 'KEEPTTL').err then
      call('PEXPIREAT', key, string.format('%.0f', math.ceil(expires / 1000)))
      call('SET', key, free, 'KEEPTTL')
    end
    answer = 1
  end
  seen[key] = true
  answers[i] = answer
end
return answers
