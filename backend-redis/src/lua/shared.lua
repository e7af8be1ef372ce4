-- Records, shared by all steps: put in front of each step's own file; `forms.lua`, `queue.lua`,
-- `batch.lua` and `group.lua` stand between.
--
-- KEYS     six for each entry of the batch, of a wait group seven, all of one hash tag
--          `{namespace/stripe}`:
--          1 H `m:NAME`   hash: the record; of a mutex or semaphore also a string, see `forms.lua`
--          2 E `me:NAME`  zset: holds and tombstones by expiry
--          3 Q `mq:NAME`  zset: waiters by arrival number
--          4 `live`       zset: waiting processes by the time they were last heard, negative once
--                         judged dead
--          5 `grace`      string: when the last grace period began
--          6 `mark`       string: the largest token of the stripe
--          7 V `wv:NAME`  zset: the watchers of the end of a wait group, see `group.lua`
--          Semaphores have `s`, `se`, `sq`; wait groups `w`, `we`, `wq`. The mailboxes
--          `box:PROCESS` of the waiters that are woken, and the zsets `md:PROCESS:NAME` of silent
--          waiters (`queue.lua`), cannot be declared, because only the script finds out which they
--          are. They have the same hash tag, hence the same slot.
-- ARGV     1 process  2 retention, then a group for each entry, as its step says.
-- Returns  an array with an array for each entry. The answer to an entry one of whose keys holds a
--          foreign type is {-1, key, type}; nothing of that entry was changed, but that expired
--          holds were removed. The answer is {-2} if more has expired, more waiters are silent, or
--          more short forms are met, than one call removes, moves or changes: the step was not
--          made, and is to be sent again at once.
--
-- H fields: `lim` limit, `used` weight of the recorded holds, `n` length of Q, `next` lower bound
-- of the scores in E, `el` upper bound of how far they were ahead, `at` when H was written last,
-- `touch` last time a hold ended, `expires` when the keys expire, `epoch` when the record began,
-- `seq` last arrival number, `wl` and `big` upper bounds of the leases and weights in Q, `swept`
-- when the silent waiters of all of Q were last put aside, `out` how many are aside, `join` when a
-- waiter queued last, or holds were many; `let`, not of a mutex, who was let in, see `queue.lua`;
-- `sweep` how far an unfinished sweep of Q has come; `h<ticket>` a hold: "expiry granted weight
-- token label", `w<ticket>` a waiter: "process weight lease enqueued number", `x<ticket>` a
-- tombstone: `1`, or the call that left it; `d<process>` there is a zset of its silent waiters,
-- whose end is `d<process>` in E.
--
-- Times are microseconds of this server's clock, read once; numbers stay below 2^53, and large ones
-- are written by `int`. E is written before H, so that a foreign type stops the step before it has
-- changed anything.

local call = redis.call
local PROCESS, STATE = ARGV[1], tonumber(ARGV[2])
local NEVER = 9007199254740992
-- The record of a mutex has nothing to keep. This is a margin for steps that come late.
local MARGIN = 10000000
-- The clock went back if it is behind the last write by more than this.
local BACK = 1000000
-- Maximum number of expired members that one call removes.
local budget = 500
-- Maximum number of short forms that one call makes hashes of, or hashes that it makes short forms
-- of (`forms.lua`).
local conversions = 32

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

local NOW = int(now)

-- Defined by `forms.lua`.
local expand, short_form
-- For wait groups only, where `o.v` is set; `group.lua` defines them.
local recall, count, settle

local function put(o, field, value)
  local set = o.set
  set[#set + 1] = field
  set[#set + 1] = value
end

-- Writes what was put into H.
local function write(o)
  local set = o.set
  if o.relet then
    put(o, 'let', string.format('%d %d %d %d %d %d', o.up, o.room, o.due, o.told, o.over, o.most))
    o.relet = false
  end
  if not o.behind then put(o, 'at', NOW) end
  for i = 1, #set, 2000 do call('HSET', o.h, unpack(set, i, math.min(i + 1999, #set))) end
  o.set = {}
end

-- Returns the key of the silent waiters of a process.
local function aside_of(o, process)
  local kind = #o.live - 3
  return string.sub(o.h, 1, kind) .. 'd:' .. process .. string.sub(o.h, kind + 1)
end

-- Forgets silent waiters that were unheard for their leases, a part of them if there are many.
local function forget(o, member)
  local key = aside_of(o, string.sub(member, 2))
  local tickets = budget > 0 and redis.pcall('ZRANGE', key, 0, budget - 1) or {}
  if budget <= 0 or tickets.err then
    -- The next call goes on; a foreign value is looked at again in a second.
    call('ZADD', o.e, tickets.err and int(now + 1000000) or NOW, member)
    call('HSET', o.h, member, '1')
    return
  end
  if not tickets[1] then
    if member == 'd' .. PROCESS then o.aside = false end
    return
  end
  local fields = {}
  for i, ticket in ipairs(tickets) do
    fields[i] = 'w' .. ticket
    if ticket == o.ticket then o.place = false end
  end
  call('HDEL', o.h, unpack(fields))
  o.out = math.max(o.out - #tickets, 0)
  put(o, 'out', o.out)
  budget = budget - #tickets
  call('ZREM', key, unpack(tickets))
  if call('ZCARD', key) > 0 then
    call('ZADD', o.e, NOW, member)
    call('HSET', o.h, member, '1')
  elseif member == 'd' .. PROCESS then
    o.aside = false
  end
end

-- Removes what has expired from E and H, as far as the budget goes. What that changes is written at
-- once, so that a step that fails later loses no permit. O(expired · log E).
local function reap(o)
  repeat
    local ended = call('ZRANGEBYSCORE', o.e, '-inf', NOW, 'LIMIT', 0, math.max(budget, 0))
    budget = budget - #ended
    if #ended > 0 then
      local fields = {}
      for i, member in ipairs(ended) do
        fields[i] = #member == 32 and 'h' .. member or member
      end
      local records = call('HMGET', o.h, unpack(fields))
      call('ZREM', o.e, unpack(ended))
      call('HDEL', o.h, unpack(fields))
      for i, member in ipairs(ended) do
        if records[i] and #member == 32 then
          local expiry, weight = string.match(records[i], '^(%d+) %d+ (%d+)')
          o.used = o.used - weight
          o.touch = math.max(o.touch, tonumber(expiry))
          o.wake = true
          if o.v then count(o, 'expired', weight) end
        elseif #member == 33 and string.byte(member) == 100 then
          forget(o, member)
        end
        if member == o.ticket then o.hold = false end
        if member == 'x' .. o.ticket then o.tombstone = false end
      end
    end
  until #ended == 0 or budget <= 0
  local first = call('ZRANGE', o.e, 0, 0, 'WITHSCORES')
  o.next = math.min(tonumber(first[2]) or NEVER, NEVER)
  put(o, 'used', o.used)
  put(o, 'touch', int(o.touch))
  put(o, 'next', int(o.next))
  if o.v then settle(o) end
  write(o)
  o.keep = true
end

-- Returns the next token of the stripe, as a number and as text; nil if a foreign text is in its
-- place.
local function next_token(o)
  local text = redis.pcall('GET', o.mark)
  if type(text) == 'table' then
    -- What has ended was removed, and is written also where the mark is foreign.
    if string.find(words(text), 'WRONGTYPE', 1, true) then return nil end
    error(text)
  end
  local last = tonumber(text or 0)
  if not last or last >= NEVER - 1 then return nil end
  local token = math.max(now, last + 1)
  text = int(token)
  call('SET', o.mark, text)
  return token, text
end

local function read(o, ticket)
  return redis.pcall('HMGET', o.h, 'lim', 'at', 'used', 'n', 'next', 'touch', 'expires', 'big',
                     'h' .. ticket, 'x' .. ticket, 'w' .. ticket, 'join', 'out', 'd' .. PROCESS, 'el', 'wl',
                     'let')
end

-- After the clock went back: nothing in E lasts longer from now than it could when it was noted. A
-- part of E if it is large.
local function set_back(o)
  local text = int(now + o.el)
  local ahead = call('ZRANGEBYSCORE', o.e, '(' .. text, '(+inf', 'LIMIT', 0, math.max(budget, 0))
  budget = budget - #ahead
  if ahead[1] then
    local entries, fields, set = {}, {}, {}
    for i, member in ipairs(ahead) do
      entries[2 * i - 1], entries[2 * i] = text, member
      fields[i] = 'h' .. member
    end
    for i, hold in ipairs(call('HMGET', o.h, unpack(fields))) do
      if hold then
        set[#set + 1] = fields[i]
        set[#set + 1] = text .. string.match(hold, '^%d+(.*)$')
        if ahead[i] == o.ticket then o.hold = set[#set] end
      end
    end
    call('ZADD', o.e, unpack(entries))
    if set[1] then call('HSET', o.h, unpack(set)) end
  end
  o.behind = budget <= 0
  o.next = tonumber(call('ZRANGE', o.e, 0, 0, 'WITHSCORES')[2]) or NEVER
  o.next = math.min(o.next, NEVER)
  o.touch = math.min(o.touch, now)
  put(o, 'next', int(o.next))
  put(o, 'touch', int(o.touch))
  -- The keys expire anew, and not before what they hold.
  local longest = math.max(o.el, o.wl)
  if o.expires_at > now + longest + 2 * STATE then o.anew, o.stay = true, o.stay + longest end
end

-- Reads who was let in: nobody where nobody waits.
local function recall_let_in(o, text)
  local up, room, due, told, over, most =
    string.match(o.n > 0 and text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  o.up, o.room, o.due = tonumber(up) or 0, tonumber(room) or 0, tonumber(due) or 0
  o.told, o.over, o.most = tonumber(told) or 0, tonumber(over) or 0, tonumber(most) or 0
  o.had = text
end

-- Takes a waiter that leaves Q out of those who were let in, if it was one.
local function come(o, number, weight)
  if number > o.up or weight > o.lim then return end
  o.room, o.due, o.relet = o.room - weight, o.due - 1, true
end

-- Nobody counts as let in any more: the next look begins at the first in the queue.
local function let_anew(o)
  if o.mutex then return end
  o.up, o.room, o.due, o.told, o.over, o.most = 0, 0, 0, 0, 0, 0
  o.relet, o.wake = true, true
end

-- Reads the record and its fields of one ticket. Afterwards every recorded hold is unexpired.
-- Returns false if more has expired than one call removes, or more has to be set back or changed:
-- then the step answers {-2}.
local function load(o, ticket)
  local r = read(o, ticket)
  if r.err then
    if conversions <= 0 and short_form(o) then return false end
    expand(o, r)
    r = read(o, ticket)
  end
  o.ticket = ticket
  o.lim = tonumber(r[1])
  o.at = tonumber(r[2]) or 0
  o.used = tonumber(r[3]) or 0
  o.n = tonumber(r[4]) or 0
  o.next = tonumber(r[5]) or NEVER
  o.touch = tonumber(r[6]) or 0
  o.expires_at = tonumber(r[7]) or 0
  o.big = tonumber(r[8]) or 0
  o.hold, o.tombstone, o.place = r[9], r[10], r[11]
  o.join = tonumber(r[12]) or 0
  o.out, o.aside = tonumber(r[13]) or 0, r[14]
  o.el, o.wl = tonumber(r[15]) or 0, tonumber(r[16]) or 0
  recall_let_in(o, r[17])
  if o.v then recall(o) end
  if o.at > now + BACK then set_back(o) end
  if o.next <= now then reap(o) end
  return o.next > now and not o.behind
end

-- Reads the fields that matter only to tickets that join the queue or stay in it.
local function more(o)
  if o.seq then return end
  local r = call('HMGET', o.h, 'seq', 'swept', 'epoch', 'sweep')
  o.seq = tonumber(r[1]) or 0
  o.swept = tonumber(r[2]) or 0
  o.epoch = tonumber(r[3]) or 0
  o.sweep = tonumber(r[4]) or 0
end

-- Writes what the step has put. The keys outlive the last use and the longest lease by the
-- retention. Their expiry is set anew only when an eighth of the retention is over. The member `!`
-- keeps E, which is often empty, and so its expiry.
local function save(o)
  if not o.set[1] and not o.keep and not o.relet then return end
  local need = now + o.lease + o.stay
  if o.expires_at < need or o.anew then
    o.anew = false
    if o.expires_at == 0 then put(o, 'epoch', NOW) end
    o.expires_at = need + math.floor(o.stay / 8)
    put(o, 'expires', int(o.expires_at))
    local at = int(math.ceil(o.expires_at / 1000))
    call('ZADD', o.e, '+inf', '!')
    write(o)
    call('PEXPIREAT', o.h, at)
    call('PEXPIREAT', o.e, at)
    if o.n > 0 then call('PEXPIREAT', o.q, at) end
  elseif o.set[1] or o.relet then
    write(o)
    if o.first then call('PEXPIREAT', o.q, int(math.ceil(o.expires_at / 1000))) end
  end
  o.keep, o.first = false, false
end

-- Notes an expiry in E; returns it as text.
local function expire(o, member, expiry)
  local text = int(expiry)
  call('ZADD', o.e, text, member)
  if expiry - now > o.el then
    o.el = expiry - now
    put(o, 'el', int(o.el))
  end
  if expiry < o.next then
    o.next = expiry
    put(o, 'next', text)
  end
  return text
end

-- Sets the lease of the loaded hold anew; returns its weight and token.
local function extend(o, lease)
  local rest, weight, token = string.match(o.hold, '^%d+( %d+ (%d+) (%d+).*)$')
  o.lease = math.max(o.lease, lease)
  put(o, 'h' .. o.ticket, expire(o, o.ticket, now + lease) .. rest)
  -- It may become a string again.
  o.tidy = o.mutex or o.semaphore
  return tonumber(weight), tonumber(token)
end

-- Ends the loaded hold. A member of a wait group counts as `ending`, or not at all without it.
local function free(o, ending)
  call('ZREM', o.e, o.ticket)
  call('HDEL', o.h, 'h' .. o.ticket)
  local weight = string.match(o.hold, '^%d+ %d+ (%d+)')
  o.used = o.used - weight
  if o.v and ending then count(o, ending, weight) end
  o.touch = now
  o.hold = false
  o.wake = true
  put(o, 'used', o.used)
  put(o, 'touch', NOW)
end

-- Leaves a tombstone for `ttl`, with the call `by` if one is given. It refuses an acquire of this
-- ticket.
local function leave_tombstone(o, ticket, ttl, by)
  o.lease = math.max(o.lease, ttl)
  expire(o, 'x' .. ticket, now + ttl)
  put(o, 'x' .. ticket, by or '1')
end

-- Takes the loaded ticket out of the queue, if it is in it or aside. The waiters behind it may fit
-- now.
local function leave(o)
  if not o.place then return end
  if call('ZREM', o.q, o.ticket) == 1 then
    o.n = o.n - 1
    put(o, 'n', o.n)
    local weight, number = string.match(o.place, '^%x+ (%d+) .* (%d+)$')
    if number and o.lim then come(o, tonumber(number), tonumber(weight)) end
  elseif redis.pcall('ZREM', aside_of(o, string.match(o.place, '^%x+')), o.ticket) == 1 then
    o.out = o.out - 1
    put(o, 'out', o.out)
  end
  call('HDEL', o.h, 'w' .. o.ticket)
  o.place = false
  o.wake = true
end

-- Whether the stored limit has outlived its retention.
local function stale(o)
  return o.used == 0 and o.n == 0 and now - o.touch > STATE
end

