-- lock: grants mutexes that nobody waits for.
--
-- Stands alone, without what the other steps share. Such a mutex is a string under H, in place of a hash: "=TOKEN KILL"
-- while it is free, "TICKET KILL EXPIRY GRANTED 1 TOKEN LABEL" while it is held, with every number of 16 digits, so that
-- numbers compare as texts; KILL is when the key expires. Any other step that meets a string makes a hash of it first.
--
-- KEYS     H of each entry
-- ARGV     1 retention of tokens, then for each entry: lease; ticket, `q` if it would queue or `t` if not, and the label
--          (a space and the text, or empty)
-- Returns  for each entry: the token; 0 if the entry needs the step `acquire`; -1 if it is held and `t` was given
-- Complexity  O(1) for each entry.
-- Retry    a ticket that holds already needs the step `acquire`, which answers it as before.

local call, sub, byte, format = redis.call, string.sub, string.byte, string.format
local TOKENS = tonumber(ARGV[1])
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local NOW = format('%016.0f', now)
local terms, seen, answers = {}, {}, {}

-- What a lease makes of this moment: until when the key has to stay, the value's middle, and, for a key that has to stay
-- longer than it would, the two for the new expiry and that expiry in milliseconds.
local function term(lease)
  local expires = now + lease + TOKENS
  local middle = format(' %016.0f %s 1 ', now + lease, NOW)
  local later = format('%016.0f', expires + math.floor(TOKENS / 8))
  local made = { format('%016.0f', expires), middle, later, format('%.0f', math.ceil(later / 1000)) }
  terms[lease] = made
  return made
end

local values = call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local key, lease, entry, value = KEYS[i], ARGV[2 * i], ARGV[2 * i + 1], values[i]
  local answer = 0
  if seen[key] then
    -- What stands there now was not read.
  elseif not value then
    -- Of a hash, too, nothing was read; then it stays as it is.
    local made = terms[lease] or term(lease)
    local text = sub(entry, 1, 32) .. ' ' .. made[3] .. made[2] .. NOW .. sub(entry, 34)
    if call('SET', key, text, 'NX', 'PXAT', made[4]) then answer = now end
  elseif byte(value) == 61 and #value == 34 and byte(value, 2) < 58 and byte(value, 18) == 32 then
    local made = terms[lease] or term(lease)
    local token, expires = NOW, sub(value, 19)
    answer = now
    local last = sub(value, 2, 17)
    if last >= NOW then
      answer = last + 1
      token = format('%016.0f', answer)
    end
    if expires >= made[1] then
      call('SET', key, sub(entry, 1, 32) .. ' ' .. expires .. made[2] .. token .. sub(entry, 34), 'KEEPTTL')
    else
      call('SET', key, sub(entry, 1, 32) .. ' ' .. made[3] .. made[2] .. token .. sub(entry, 34), 'PXAT', made[4])
    end
  elseif byte(entry, 33) == 116 and #value > 101 and sub(value, 51, 66) > NOW
      and sub(value, 1, 32) ~= sub(entry, 1, 32) then
    answer = -1
  end
  seen[key] = true
  answers[i] = answer
end
return answers
