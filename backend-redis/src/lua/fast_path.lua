-- fast_path: releases mutexes, and grants free ones, as long as nobody waits for them.
--
-- Stands alone, without what the other steps share. A free mutex has no key. A held one that nobody
-- waits for is a string under H that expires with its lease: "TICKET TOKEN GRANTED LEASE LABEL", of
-- 32, 16, 16 and any number of digits. `LEASE` is an upper bound of what is left of the lease, in
-- ms. Any other step that meets such a string makes a hash of it first.
--
-- KEYS     the marks of the stripes of the acquires; H of each release; H of each acquire
-- ARGV     1 number of marks  2 number of releases  3 the kinds of the entries in their order, `r`
--          or `a` for each; for each release: ticket; for each acquire: place of its mark in KEYS,
--          lease in ms; ticket, `q` if it would queue or `t` if not, and the label (a space and the
--          text, or empty)
-- Returns  a text, which is quicker to read than a list: "TOKEN ", the token of all grants, and a
--          letter for each entry in order: `r` the hold was there and is released; `g` granted; `h`
--          it is held and `t` was given; `n` the entry needs the step `release` or `acquire`
-- Complexity  O(1) for each entry.
-- Retry    a release finds the hold gone, which the step `release` answers; a ticket that holds
--          already needs the step `acquire`, which answers it as before.
-- Memory   a release needs none. A grant for which there is none needs the step `acquire`, which
--          says so.

local call, sub, byte, format = redis.call, string.sub, string.byte, string.format
local MARKS, RELEASES, KINDS = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local FIRST = MARKS + RELEASES

local values = call('MGET', unpack(KEYS, 1, math.max(FIRST, 1)))

-- All that can be refused for want of a right comes before the first change, except writes of
-- grants.
local now, token, foreign = 0, 0, {}
if MARKS > 0 then
  local clock = call('TIME')
  now = clock[1] * 1000000 + clock[2]
  -- One token serves all grants of the call: it is larger than all that their stripes have seen.
  token = now
  for i = 1, MARKS do
    -- `MGET` reads a value of another type as none.
    local text = values[i] or redis.pcall('GET', KEYS[i])
    local mark = text and tonumber(text)
    if mark and mark >= 9007199254740991 then mark = nil end
    if mark then token = math.max(token, mark + 1) end
    foreign[i] = text and not mark
  end
end

local released, ended = {}, {}
for i = 1, RELEASES do
  local value = values[MARKS + i]
  released[i] = 'n'
  if value and sub(value, 1, 32) == ARGV[3 + i] then
    ended[#ended + 1] = KEYS[MARKS + i]
    released[i] = 'r'
  end
end
if ended[1] then call('DEL', unpack(ended)) end
if MARKS == 0 then return '0 ' .. table.concat(released) end

local middle = format(' %016d %016d ', token, now)

-- Whether another ticket holds. Its string cannot stay longer than its lease, whatever the clock
-- was when it was granted.
local function is_held(key, ticket)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then return false end
  local holder, lease = string.match(value, '^(%x+) %d+ %d+ (%d+)')
  if not lease or #holder ~= 32 or holder == ticket then return false end
  local left = redis.pcall('PTTL', key)
  if type(left) ~= 'number' then return false end
  if left < 0 or left > tonumber(lease) then redis.pcall('PEXPIRE', key, lease) end
  return true
end

local at, raised, acquired = 4 + RELEASES, {}, {}
for i = FIRST + 1, #KEYS do
  local key, mark, lease, entry = KEYS[i], tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
  local answer = 'n'
  -- Where a mark is foreign, the step `acquire` names the key.
  if not foreign[mark] then
    local set = redis.pcall('SET', key, sub(entry, 1, 32) .. middle .. lease .. sub(entry, 34), 'NX', 'PX', lease)
    if set and not set.err then
      answer, raised[mark] = 'g', true
    elseif byte(entry, 33) == 116 and is_held(key, sub(entry, 1, 32)) then
      answer = 'h'
    end
  end
  acquired[#acquired + 1] = answer
  at = at + 3
end
for i in pairs(raised) do call('SET', KEYS[i], sub(middle, 2, 17)) end
local text = format('%d ', token)
if RELEASES == 0 then return text .. table.concat(acquired) end

local answers, r, a = {}, 0, 0
for i = 1, #KINDS do
  if byte(KINDS, i) == 114 then
    r = r + 1
    answers[i] = released[r]
  else
    a = a + 1
    answers[i] = acquired[a]
  end
end
return text .. table.concat(answers)
