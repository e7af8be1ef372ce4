-- Adds many holds to an object, or tombstones.
--
-- KEYS     those of the object
-- ARGV     how many, the letter of their fields, when they end, in us from now

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local text = string.format('%d', now + ARGV[3])
for i = 1, ARGV[1] do
  local ticket = string.format('%032x', i)
  redis.call('ZADD', KEYS[2], text, ARGV[2] == 'x' and 'x' .. ticket or ticket)
  redis.call('HSET', KEYS[1], ARGV[2] .. ticket,
             ARGV[2] == 'x' and '1' or string.format('%s %d 1 %d', text, now, now + i))
end
if ARGV[2] == 'h' then redis.call('HINCRBY', KEYS[1], 'used', ARGV[1]) end
redis.call('HSET', KEYS[1], 'next', text, 'el', '86400000000')
