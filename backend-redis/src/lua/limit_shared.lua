-- Shared by the steps of limiters: put in front of each step's own file.
--
-- KEYS     in groups of three, one group for each limiter of the batch, all of one hash tag
--          `{namespace/stripe}`:
--          1 H `l:NAME`   hash: the bucket and the last answers
--          2 R `lr:NAME`  hash: reservations and refunds by ticket
--          3 Z `lz:NAME`  zset: the same tickets by time
--          R and Z exist only while a reservation is ahead, or for 60 s after one was cancelled.
-- ARGV     1 not used  2 retention, then a group for each limiter, as its step says.
-- Returns  an array with an array for each limiter. The answer for a limiter one of whose keys
--          holds a foreign type is {-1, key, type}; nothing of that limiter was changed.
--
-- H fields: `s` the bucket: "amount period burst tokens fraction last expires_at cursor", where
-- `expires_at` is when the keys expire, and `cursor` how far a sweep of the fields `a` has come;
-- `r` a summary of R and Z, absent with them: "taken latest due", where `latest` is the last time
-- of all reservations that are ahead, 0 without one, and `due` a lower bound of the next time at
-- which something leaves R and Z; `a<lane>` the last answer to a lane, as in the step
-- `limit_decide`.
-- R fields: a ticket: "ready_at cost mark", or "refund" after it was cancelled. What is no longer
-- ahead, or is not asked for any more, is forgotten a part at a time.
-- Z scores: the time of a ticket or, negated, when its refund is forgotten.
--
-- The arithmetic is that of `stanchion_core::limiter::Bucket`, function by function, and is
-- explained there. Times are microseconds of this server's clock, read once. Every number is whole
-- and below 2^53 or only compared with a smaller one; of such numbers `floor(a / b)`, `ceil(a / b)`
-- and `a % b` are exact in doubles.

local call, floor, ceil, min, max = redis.call, math.floor, math.ceil, math.min, math.max
local MAX, NEVER = 9007199254740991, 9007199254740992
local ANSWERS, STEP_BACK = 60000000, 60000000
local KEEP = max(tonumber(ARGV[2]), ANSWERS)
local CHUNK = 500
-- Maximum number of tickets that one call forgets.
local budget = 500

local clock = call('TIME')
local now = min(clock[1] * 1000000 + clock[2], MAX)

-- `t + periods * amount`, or nil if that is over `cap`.
local function raise(t, amount, periods, cap)
  if periods == 0 then return t end
  if t < 0 then
    local paid = min(periods, floor(-t / amount))
    t = t + paid * amount
    periods = periods - paid
    if periods == 0 then return t end
    t = t + amount
    periods = periods - 1
  end
  local room = cap - t
  if room < 0 or periods > floor(room / amount) then return nil end
  return t + periods * amount
end

-- Returns what `t` tokens and `f` parts of one have become after `elapsed`, at most `cap` tokens.
local function after(q, t, f, elapsed, cap)
  if t >= cap then return cap, 0 end
  local amount, period = q.amount, q.period
  local periods, rest = 0, elapsed
  if elapsed >= period then periods, rest = floor(elapsed / period), elapsed % period end
  local parts = rest * amount
  local gain, part = floor(parts / period), parts % period
  local missing = period - f
  if part >= missing then
    gain, f = gain + 1, part - missing
  else
    f = part + f
  end
  t = raise(t, amount, periods, cap)
  if not t or t + gain >= cap then return cap, 0 end
  return t + gain, f
end

-- Returns how long it takes until `target` tokens are there, rounded up, at most MAX.
local function wait_for(q, t, f, target)
  local amount, period = q.amount, q.period
  local periods, rest
  if t >= 0 then
    local missing = max(target - t, 0)
    periods, rest = floor(missing / amount), missing % amount
  else
    periods = floor(-t / amount) + floor(target / amount)
    local x, y = -t % amount, target % amount
    if x >= amount - y then
      periods, rest = periods + 1, x - (amount - y)
    else
      rest = x + y
    end
  end
  if rest == 0 then
    if periods == 0 then return 0 end
    periods, rest = periods - 1, amount
  end
  if periods > floor(MAX / period) then return MAX end
  return min(periods * period + ceil((rest * period - f) / amount), MAX)
end

-- `t - cost`, or nil if the debt would be over MAX.
local function debit(t, cost)
  if t < 0 and cost > MAX + t then return nil end
  return t - cost
end

-- Lowers the content so that after `wait` it is at most `room` tokens; nil as for `debit`.
local function trimmed(q, t, f, wait, room)
  local then_t, then_f = after(q, t, f, wait, MAX)
  if then_t < room then return t, f end
  t = debit(t, then_t - room)
  if not t then return nil end
  if then_f <= f then return t, f - then_f end
  return debit(t, 1), q.period - then_f + f
end

-- `floor(f * new / old)` for `f < old`, by doubling and adding over the bits of `new`, remainder
-- kept apart.
local function scaled(f, old, new)
  local quotient, rest, bit = 0, 0, 4503599627370496
  while bit >= 1 do
    quotient = 2 * quotient
    if rest >= old - rest then
      quotient, rest = quotient + 1, rest - (old - rest)
    else
      rest = 2 * rest
    end
    if new >= bit then
      new = new - bit
      if rest >= old - f then
        quotient, rest = quotient + 1, rest - (old - f)
      else
        rest = rest + f
      end
    end
    bit = bit / 2
  end
  return quotient
end

local function same(a, b)
  return a.amount == b.amount and a.period == b.period and a.burst == b.burst
end

-- Changes the quota: the fraction is rounded down to the new unit.
local function convert(o, q)
  if o.t >= q.burst then
    o.t, o.f = q.burst, 0
  else
    o.f = scaled(o.f, o.q.period, q.period)
  end
  o.q = q
end

-- Removes tickets with scores in a range from R and Z, as far as the budget goes.
local function forget(o, from, to)
  local gone = budget > 0 and call('ZRANGEBYSCORE', o.z, from, to, 'LIMIT', 0, budget) or {}
  if not gone[1] then return end
  budget = budget - #gone
  call('ZREM', o.z, unpack(gone))
  call('HDEL', o.r, unpack(gone))
end

-- Whether a reservation is ahead.
local function ahead(o)
  return o.latest > o.last
end

-- Notes when the next ticket leaves.
local function recount(o)
  local first = call('ZRANGEBYSCORE', o.z, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local refund = call('ZREVRANGEBYSCORE', o.z, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  o.due = min(tonumber(first[2]) or NEVER, -(tonumber(refund[2]) or -NEVER))
  if not ahead(o) then o.taken, o.latest = 0, 0 end
  if o.due == NEVER then o.summary, o.dropped = false, true end
  o.noted = true
end

-- Forgets the times of a clock that was wrong, and with them all tickets. Foreign types under R or
-- Z stop it before that.
local function begin_again(o)
  o.last, o.expires_at, o.noted = now, 0, true
  call('HLEN', o.r)
  call('ZCARD', o.z)
  call('DEL', o.r, o.z)
  call('HDEL', o.h, 'r')
end

-- Reads the bucket and, if there is one, advances it to this moment. `memory` is a lane whose last
-- answer is read, too.
local function load(o, memory)
  local r = call('HMGET', o.h, 's', 'r', memory)
  o.memory = r[3]
  local amount, period, burst, t, f, last, expires_at, cursor =
    string.match(r[1] or '', '^(%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+)$')
  o.last, o.expires_at, o.cursor = now, 0, cursor or '0'
  if amount then
    o.q = { amount = tonumber(amount), period = tonumber(period), burst = tonumber(burst) }
    o.t, o.f, o.last, o.expires_at = tonumber(t), tonumber(f), tonumber(last), tonumber(expires_at)
    if now > o.last then
      o.t, o.f = after(o.q, o.t, o.f, now - o.last, o.q.burst)
      o.last = now
    elseif o.last - now > STEP_BACK then
      begin_again(o)
      r[2] = false
    end
  end
  o.taken, o.latest, o.due = 0, 0, NEVER
  local taken, latest, due = string.match(r[2] or '', '^(%d+) (%d+) (%d+)$')
  if taken then
    o.summary = true
    o.taken, o.latest, o.due = tonumber(taken), tonumber(latest), tonumber(due)
    if o.due <= o.last then
      local at = int(o.last)
      forget(o, '(0', at)
      forget(o, '-' .. at, '(0')
      recount(o)
    end
  end
end

-- Makes a full bucket, for a name without one or for a reset.
local function fill(o, q)
  o.q, o.t, o.f = q, q.burst, 0
end

-- Reads the fields of tickets in R: `{ready_at, cost, mark}` or `{refund}`.
local function look(o, tickets)
  o.entries = o.entries or {}
  if not o.summary then return end
  for i, record in ipairs(call('HMGET', o.r, unpack(tickets))) do
    local a, b, c = string.match(record or '', '^(%d+) ?(%d*) ?(%d*)$')
    if a then o.entries[tickets[i]] = { tonumber(a), tonumber(b), tonumber(c) } end
  end
end

-- Notes a ticket in Z. It runs before any other write of its step: a foreign type under R or Z
-- stops the step here.
local function mark(o, ticket, score)
  if not o.summary and not o.opened then
    call('HLEN', o.r)
    o.opened = true
  end
  call('ZADD', o.z, int(score), ticket)
  o.due = min(o.due, math.abs(score))
  o.noted = true
end

-- Notes the new field of a ticket in R; `save` writes it.
local function put(o, ticket, entry)
  o.entries[ticket], o.changed = entry, o.changed or {}
  o.changed[ticket] = true
end

-- Lowers `taken` and all marks together, so that they stay below 2^53.
local function rebase(o, shift)
  each_field(o.r, function(ticket, text)
    local a, b, c = string.match(text, '^(%d+) (%d+) (%d+)$')
    if a and not o.entries[ticket] then o.entries[ticket] = { tonumber(a), tonumber(b), tonumber(c) } end
  end)
  o.taken = o.taken - shift
  for ticket, entry in pairs(o.entries) do
    if entry[2] then
      put(o, ticket, entry)
      if entry[3] >= shift then entry[3] = entry[3] - shift else entry[2], entry[3] = 0, 0 end
    end
  end
end

-- Counts a cost taken behind all reservations that are ahead.
local function charge(o, cost)
  local shift = cost - (MAX - o.taken)
  if shift > 0 then
    o.entries = o.entries or {}
    rebase(o, shift)
  end
  o.taken = o.taken + cost
  o.noted = true
end

-- Writes what has changed. The keys outlive the time at which the bucket is full by the retention.
-- Their expiry is set anew only when an eighth of the retention is over.
local function save(o, answer)
  if o.changed then
    local set = {}
    for ticket in pairs(o.changed) do
      local e = o.entries[ticket]
      set[#set + 1] = ticket
      set[#set + 1] = e[2] and string.format('%d %d %d', e[1], e[2], e[3]) or int(e[1])
      if #set >= 2 * CHUNK then
        call('HSET', o.r, unpack(set))
        set = {}
      end
    end
    if set[1] then call('HSET', o.r, unpack(set)) end
  end
  local set, need = {}, o.last + KEEP
  if o.q then
    local full = o.last + wait_for(o.q, o.t, o.f, o.q.burst)
    need = min(max(min(full, MAX), o.latest) + KEEP, MAX)
  end
  local moved = o.expires_at < need
  if moved then o.expires_at = min(need + floor(KEEP / 8), MAX) end
  if o.q then
    set = { 's', string.format('%d %d %d %d %d %d %d %s', o.q.amount, o.q.period, o.q.burst, o.t, o.f, o.last,
                               o.expires_at, o.cursor) }
  end
  local kept = o.due < NEVER
  if o.noted and kept then
    set[#set + 1] = 'r'
    set[#set + 1] = string.format('%d %d %d', o.taken, o.latest, o.due)
  end
  for _, part in ipairs(answer or {}) do set[#set + 1] = part end
  if set[1] then call('HSET', o.h, unpack(set)) end
  if o.dropped and not kept then call('HDEL', o.h, 'r') end
  local at = int(ceil(o.expires_at / 1000))
  if moved then call('PEXPIREAT', o.h, at) end
  if kept and (moved or not o.summary) then
    call('PEXPIREAT', o.r, at)
    call('PEXPIREAT', o.z, at)
  end
end

local KINDS = { 'hash', 'hash', 'zset' }

-- Runs the step for each limiter. `width` returns the number of arguments of a limiter, given the
-- place of the first.
local function run(width, step)
  local answers, at = {}, 3
  for k = 0, #KEYS - 3, 3 do
    local o = { h = KEYS[k + 1], r = KEYS[k + 2], z = KEYS[k + 3] }
    local ok, answer = pcall(step, o, at)
    at = at + width(at)
    if not ok then
      local refusal
      answer, refusal = stopped(answer, k, KINDS, 3)
      if refusal then return refusal end
    end
    answers[#answers + 1] = answer
  end
  return answers
end
