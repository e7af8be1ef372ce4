-- hand_over: lets the new ticket of an attached hold write with the token that the hold kept, and
-- no earlier ticket.
--
-- KEYS     1 the mark
-- ARGV     1 token  2 the new ticket
-- Returns  1 handed over   the mark, if a larger token was seen
-- Complexity  O(1).
-- Retry    hands over the same again.

local seen = redis.call('GET', KEYS[1])
local largest = seen and string.match(seen, '^(%d+) %x+$')
if seen and not largest then error({ err = 'FENCE the mark is not one of ours' }) end
if largest and tonumber(ARGV[1]) < tonumber(largest) then return seen end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2])
return 1
