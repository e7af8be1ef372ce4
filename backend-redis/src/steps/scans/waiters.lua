-- Queues many waiters of a process behind those who wait.
--
-- KEYS     those of the object
-- ARGV     how many, process, weight, how long ago it was heard in us

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local last = tonumber(redis.call('HGET', KEYS[1], 'seq'))
for i = 1, ARGV[1] do
  local ticket, number = string.format('%032x', i), string.format('%d', last + i)
  redis.call('ZADD', KEYS[3], number, ticket)
  redis.call('HSET', KEYS[1], 'w' .. ticket,
             string.format('%s %s 86400000000 %d %s', ARGV[2], ARGV[3], now - ARGV[4], number))
end
redis.call('HINCRBY', KEYS[1], 'n', ARGV[1])
redis.call('HSET', KEYS[1], 'seq', string.format('%d', last + ARGV[1]), 'big', ARGV[3], 'wl', '86400000000')
redis.call('ZADD', KEYS[4], string.format('%d', now - ARGV[4]), ARGV[2])
