-- Notes many processes that waited, and that all of them were silent since.
--
-- KEYS     those of the object
-- ARGV     how many

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
redis.call('DEL', KEYS[4])
for i = 1, ARGV[1] do redis.call('ZADD', KEYS[4], string.format('%d', now - 60000000 + i), string.format('%032x', i)) end
-- A grace period began and ended, and then one of them was heard.
redis.call('SET', KEYS[5], string.format('%d', now - 10000000))
redis.call('ZADD', KEYS[4], string.format('%d', now - 5000000), string.format('%032x', 1))
