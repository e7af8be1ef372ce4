-- fast_renew: sets the leases of mutexes anew that nobody waits for. See `fast_path` for what
-- stands under H.
--
-- KEYS     H of each entry
-- ARGV     for each entry: ticket, lease in ms
-- Returns  for each entry: 1 the hold was there and has its new lease; 0 the entry needs the step
--          `renew`
-- Complexity  O(1) for each entry.
-- Retry    the lease is counted from the last one.
-- Memory   is not needed: at `maxmemory` the server refuses a script its first write, if that may
--          need some, but not what follows another write.

local call = redis.call
local answers = {}
local values = call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local key, ticket, lease = KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]
  local holder, front, before, label = string.match(values[i] or '', '^(%x+)( %d+ %d+ )(%d+)(.*)$')
  answers[i] = 0
  if holder == ticket and #holder == 32 then
    answers[i] = call('PEXPIRE', key, lease)
    if answers[i] == 1 and tonumber(lease) > tonumber(before) then
      call('SET', key, ticket .. front .. lease .. label, 'KEEPTTL')
    end
  end
end
return answers
