-- fenced_set: sets a key, unless the token is that of an older holder.
--
-- KEYS     1 the mark  2 the key
-- ARGV     1 token  2 ticket  3 value
-- Returns  1 written   the mark, if the token is refused
-- Complexity  O(1).
-- Retry    writes the same again.

if not fenced(KEYS[1], ARGV[1], ARGV[2]) then return redis.call('GET', KEYS[1]) end
redis.call('SET', KEYS[2], ARGV[3])
return 1
