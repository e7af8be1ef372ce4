-- Adds many reservations to a limiter, or refunds, or answers to lanes.
--
-- KEYS     those of the limiter
-- ARGV     how many, `reserved`, `refunded` or `answered`, when they end, in us from now

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local at = string.format('%d', now + ARGV[3])
for i = 1, ARGV[1] do
  local ticket = string.format('%032x', i)
  if ARGV[2] == 'answered' then
    redis.call('HSET', KEYS[1], 'a' .. ticket, '1 ' .. at .. ' 0;')
  elseif ARGV[2] == 'reserved' then
    redis.call('HSET', KEYS[2], ticket, at .. ' 1 ' .. i)
    redis.call('ZADD', KEYS[3], at, ticket)
  else
    redis.call('HSET', KEYS[2], ticket, '1')
    redis.call('ZADD', KEYS[3], '-' .. at, ticket)
  end
end
if ARGV[2] ~= 'answered' then
  local latest = ARGV[2] == 'reserved' and at or '0'
  redis.call('HSET', KEYS[1], 'r', string.format('%d %s %s', ARGV[1], latest, at))
end
