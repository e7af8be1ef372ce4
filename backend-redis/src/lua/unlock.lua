-- unlock: releases mutexes that nobody waits for. See `lock` for what stands under H.
--
-- KEYS     H of each entry
-- ARGV     1 retention of tokens, unused; then for each entry: ticket
-- Returns  for each entry: 1 the hold was there; 0 the entry needs the step `release`
-- Complexity  O(1) for each entry.
-- Retry    finds the hold gone, which the step `release` answers.

local call, sub = redis.call, string.sub
local clock = call('TIME')
local NOW = string.format('%016.0f', clock[1] * 1000000 + clock[2])

local seen, answers = {}, {}
local values = call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local key, value = KEYS[i], values[i]
  local answer = 0
  if value and not seen[key] and sub(value, 1, 32) == ARGV[i + 1] and sub(value, 51, 66) > NOW then
    call('SET', key, '=' .. sub(value, 87, 102) .. ' ' .. sub(value, 34, 49), 'KEEPTTL')
    answer = 1
  end
  seen[key] = true
  answers[i] = answer
end
return answers
