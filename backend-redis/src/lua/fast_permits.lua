-- fast_permits: grants, renews and releases permits of semaphores that nobody waits for.
--
-- Put behind `permits.lua`, without what the other steps share. Such a semaphore with few holds is
-- a string under H; free, it keeps its limit for the retention. Any other step that meets such a
-- string makes a hash of it first.
--
-- KEYS     the marks of the stripes of the acquires; H of each entry
-- ARGV     1 number of marks  2 retention  3 the kinds of the entries in their order, `r`, `n` or
--          `a` for each; for a release: ticket; for a renewal: ticket, lease; for an acquire: place
--          of its mark in KEYS; ticket, `q` if it would queue or `t` if not, check as in `acquire`,
--          and the label (a space and the text, or empty); weight, lease, limit
-- Returns  in the order of the entries, for a release: 1 the hold was there; 0 the entry needs the
--          step `release`
--          for a renewal: 1 the hold was there and has its new lease; 0 the entry needs the step
--          `renew`
--          for an acquire: the token; 0 the entry needs the step `acquire`; -1 the permits are not
--          there and `t` was given; with the stored limit behind it if that is another one
-- Complexity  O(holds) for each entry.
-- Retry    a release finds the hold gone, which the step `release` answers; a ticket that holds
--          already needs the step `acquire`, which answers it as before; a lease is counted from
--          the last renewal.
-- Memory   a release or a renewal needs none. A grant for which there is none needs the step
--          `acquire`, which says so.

local call, sub, byte = redis.call, string.sub, string.byte
local MARKS, STATE, KINDS = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
-- Maximum number of holds of a string.
local MOST = 16

local values = call('MGET', unpack(KEYS))
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- The next token is larger than all that the stripes have seen.
local token, foreign, raised = now, {}, {}
for i = 1, MARKS do
  -- `MGET` reads a value of another type as none.
  local text = values[i] or redis.pcall('GET', KEYS[i])
  local mark = text and tonumber(text)
  if mark and mark >= 9007199254740000 then mark = nil end
  if mark then token = math.max(token, mark + 1) end
  foreign[i] = text and not mark
end

-- By key, because a batch may name a semaphore more than once. `false` stands for a key that is no
-- string of ours.
local known, answers = {}, {}

local function permits_of(i)
  local key, text = KEYS[MARKS + i], values[MARKS + i]
  local p = known[key]
  if p ~= nil then return p end
  if text then
    p = read_permits(text, now) or false
  else
    p = call('TYPE', key)['ok'] == 'none' and { touch = now, expires = 0, used = 0, last = now, holds = {} }
  end
  if p and p.lim and p.used == 0 and now - p.touch > STATE then p.lim = nil end
  known[key] = p
  return p
end

local function place_of(p, ticket)
  for at, hold in ipairs(p and p.holds or {}) do
    if hold.ticket == ticket then return at, hold end
  end
end

local function release(i, ticket)
  local p = permits_of(i)
  local at, hold = place_of(p, ticket)
  if not at then return 0 end
  table.remove(p.holds, at)
  p.used, p.touch, p.frees = p.used - hold.weight, now, true
  return 1
end

local function renew(i, ticket, lease)
  local p = permits_of(i)
  local at, hold = place_of(p, ticket)
  if not at then return 0 end
  set_end(hold, now + lease, lease)
  p.last, p.frees = math.max(p.last, hold.expiry), true
  return 1
end

local function acquire(i, at)
  local mark, entry, weight, lease = tonumber(ARGV[at]), ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local limit, ticket, p = tonumber(ARGV[at + 4]), sub(entry, 1, 32), permits_of(i)
  -- Where a mark is foreign, the step `acquire` names the key.
  if not p or p.closed or foreign[mark] or place_of(p, ticket) then return 0 end
  local lim = p.lim or limit
  local fits, answer = p.used + weight <= lim, -1
  if weight > lim or (lim ~= limit and byte(entry, 34) ~= 97) or (fits and #p.holds >= MOST)
     or (not fits and byte(entry, 33) == 113) then
    -- None of this call overtakes it.
    p.closed = true
    return 0
  end
  if fits then
    answer = token
    token = token + 1
    -- Nothing of this call gives it a new end.
    local label, expiry = sub(entry, 35), now + lease
    p.holds[#p.holds + 1] = { ticket = ticket, weight = weight, i = i, expiry = expiry, rest = label,
                              front = string.format(' %s %d %d %d %d %d %d', ticket, expiry, lease, now, answer, weight, #label) }
    p.lim, p.used, p.last, p.mark = lim, p.used + weight, math.max(p.last, expiry), mark
  end
  return lim == limit and answer or { answer, lim }
end

-- Releases and renewals come first, so that what they free is there for the acquires.
local at, acquires, starts = 4, {}, {}
for i = 1, #KINDS do
  local kind = byte(KINDS, i)
  if kind == 97 then
    acquires[#acquires + 1], starts[#starts + 1] = i, at
    at = at + 5
  elseif kind == 114 then
    answers[i] = release(i, ARGV[at])
    at = at + 1
  else
    answers[i] = renew(i, ARGV[at], tonumber(ARGV[at + 1]))
    at = at + 2
  end
end
for n, i in ipairs(acquires) do answers[i] = acquire(i, starts[n]) end

for key, p in pairs(known) do
  if p and (p.frees or p.mark or p.stale) then
    p.expires = math.max(p.expires, p.last + STATE)
    local text, ends = permits_text(p)
    local set = redis.pcall('SET', key, text, 'PXAT', ends)
    if set.err then
      -- Returned, not raised: older servers lose the code of an error that is raised.
      if not string.find(set.err, 'OOM', 1, true) then return set end
      if p.frees then
        -- Behind a write that needs no memory the server lets any other pass.
        call('PEXPIREAT', key, ends)
        call('SET', key, text, 'PXAT', ends)
      else
        for _, hold in ipairs(p.holds) do
          if hold.i then answers[hold.i] = 0 end
        end
        p.mark = nil
      end
    end
    if p.mark then raised[p.mark] = true end
  end
end
for i in pairs(raised) do call('SET', KEYS[i], string.format('%016d', token - 1)) end
return answers
