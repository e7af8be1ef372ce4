-- fast_path: releases mutexes, and grants free ones, as long as nobody waits for them.
--
-- Stands alone, without what the other steps share. A free mutex has no key. A held one that nobody waits for is a string
-- under H that expires with its lease: "TICKET TOKEN GRANTED LEASE LABEL", of 32, 16, 16 and any number of digits. `LEASE`
-- is an upper bound of what is left of the lease, in ms. Any other step that meets such a string makes a hash of it first.
--
-- KEYS     the marks of the stripes of the acquires; H of each release; H of each acquire
-- ARGV     1 number of marks  2 number of releases; for each release: ticket; for each acquire: place of its mark in KEYS,
--          lease in ms; ticket, `q` if it would queue or `t` if not, and the label (a space and the text, or empty)
-- Returns  for each release: 1 the hold was there; 0 the entry needs the step `release`
--          for each acquire: the token; 0 the entry needs the step `acquire`; -1 it is held and `t` was given
-- Complexity  O(1) for each entry.
-- Retry    a release finds the hold gone, which the step `release` answers; a ticket that holds already needs the step
--          `acquire`, which answers it as before.
-- Memory   a release needs none.

local call, sub, byte, format = redis.call, string.sub, string.byte, string.format
local MARKS, RELEASES = tonumber(ARGV[1]), tonumber(ARGV[2])
local FIRST = MARKS + RELEASES
local answers = {}

local values = call('MGET', unpack(KEYS, 1, math.max(FIRST, 1)))

local ended = {}
for i = 1, RELEASES do
  local value = values[MARKS + i]
  answers[i] = 0
  if value and sub(value, 1, 32) == ARGV[2 + i] then
    ended[#ended + 1] = KEYS[MARKS + i]
    answers[i] = 1
  end
end
if ended[1] then call('DEL', unpack(ended)) end
if MARKS == 0 then return answers end

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- One token serves all grants of the call: it is larger than all that their stripes have seen.
local token, foreign = now, {}
for i = 1, MARKS do
  -- `MGET` reads a value of another type as none.
  local text = values[i] or redis.pcall('GET', KEYS[i])
  local mark = text and tonumber(text)
  if mark and mark >= 9007199254740991 then mark = nil end
  if mark then token = math.max(token, mark + 1) end
  foreign[i] = text and not mark
end
local middle = format(' %016.0f %016.0f ', token, now)

-- Whether another ticket holds. Its string cannot stay longer than its lease, whatever the clock was when it was granted.
local function is_held(key, ticket)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then return false end
  local holder, lease = string.match(value, '^(%x+) %d+ %d+ (%d+)')
  if not lease or #holder ~= 32 or holder == ticket then return false end
  local left = call('PTTL', key)
  if left < 0 or left > tonumber(lease) then call('PEXPIRE', key, lease) end
  return true
end

local at, raised = 3 + RELEASES, {}
for i = FIRST + 1, #KEYS do
  local key, mark, lease, entry = KEYS[i], tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
  local answer = 0
  -- Where a mark is foreign, the step `acquire` names the key.
  if not foreign[mark] then
    local set = redis.pcall('SET', key, sub(entry, 1, 32) .. middle .. lease .. sub(entry, 34), 'NX', 'PX', lease)
    local refused = set and set.err
    if set and not refused then
      answer, raised[mark] = token, true
    elseif byte(entry, 33) == 116 and is_held(key, sub(entry, 1, 32)) then
      answer = -1
    elseif refused then
      return set
    end
  end
  answers[#answers + 1] = answer
  at = at + 3
end
for i in pairs(raised) do call('SET', KEYS[i], sub(middle, 2, 17)) end
return answers
