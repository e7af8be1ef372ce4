-- The waiters: which of them live, and which are next. Put behind `shared.lua`.
--
-- A release, or whatever else makes room, lets the first waiters in who fit together: each of their
-- processes is told once, and each waiter then claims its hold by the step `acquire`. H keeps in
-- `let` up to which arrival number that was done, so that no waiter is told twice of the same room
-- and nobody looks at those in front again: "up room due told over most". All in Q up to `up` that
-- are not larger than the limit were let in; they are `due`, their weights add up to `room`, and
-- with what is held they are within the limit. `told` is how many were due when some were let in
-- last: when half of them have come, the next are let in, as far as there is room. While some may
-- be larger than the limit, `over` is up to which number those were told in this round, and `most`
-- the largest weight in it so far. A mutex, which lets one in at a time, has no such field.

local SWEEP = 1000000
local MAX_LEASE = 86400000000
local BOX_MS, BOX_LENGTH = 10000, 10000
-- Maximum number of waiters that one call puts back, puts aside or removes.
local moves = 500
-- Maximum number of waiters that one call looks at, and of those that it lets in; each object has
-- a few looks, and lets one in at least.
local looks, tells, FEW = 400, 250, 4

-- Marks the asking process as live, and keeps the mark as long as its waiters keep their places.
local function mark_live(o, lease)
  local s = liveness_of(o.live, o.grace, now)
  if not s.heard then
    s.heard = true
    call('ZADD', o.live, NOW, PROCESS)
  end
  local keep = lease + STATE
  if keep > (s.kept or 0) then
    s.kept = keep
    if call('PTTL', o.live) * 1000 < keep then
      call('PEXPIRE', o.live, int(math.ceil(keep * 9 / 8000)))
      call('ZREMRANGEBYSCORE', o.live, int(MAX_LEASE - now), int(now - MAX_LEASE))
    end
  end
end

-- Returns until when the waiter counts as live. A process that asks is alive. The stripe is read
-- only if the process was not heard within the last second.
local function alive(o, w, score)
  if w.process == o.asking then return now + LIVENESS end
  w.heard = tonumber(score) or w.since
  local till = w.heard + LIVENESS
  if till > now and till <= now + 2 * LIVENESS then return till end
  local s = liveness_of(o.live, o.grace, now)
  -- The score may have been read before the mark was made.
  if w.heard < s.marked then return 0 end
  return math.max(math.min(w.heard, now) + LIVENESS, s.start + GRACE)
end

-- Takes silent waiters of one process out of the queue and keeps them with their numbers, until the
-- process is heard or they were unheard for their leases, at `expiry`. `entries` is their numbers
-- and tickets in turn. Returns false if a foreign value is under the key; then they stay in the
-- queue.
local function put_aside(o, process, entries, tickets, expiry)
  local key, member = aside_of(o, process), 'd' .. process
  -- First of all, before anything is changed: E may hold a foreign type.
  local known = tonumber(call('ZSCORE', o.e, member)) or 0
  local added = redis.pcall('ZADD', key, unpack(entries))
  if type(added) ~= 'number' then
    if string.find(words(added), 'WRONGTYPE', 1, true) then return false end
    error(added)
  end
  call('ZREM', o.q, unpack(tickets))
  call('PEXPIREAT', key, int(math.ceil(o.expires_at / 1000)))
  expire(o, member, math.max(expiry, known))
  put(o, member, '1')
  o.out = o.out + #tickets
  put(o, 'out', o.out)
  return true
end

-- Puts the waiters of the asking process back that were put aside, the earliest first. If `o.aside`
-- is still set, there are more.
local function put_back(o)
  if not o.aside then return end
  more(o)
  if moves <= 0 then return end
  local key, entries, fields, tickets = aside_of(o, PROCESS), {}, {}, {}
  call('ZSCORE', o.e, 'd' .. PROCESS)
  local most = moves
  local first = redis.pcall('ZRANGE', key, 0, most - 1, 'WITHSCORES')
  if first.err then
    -- A foreign value is there: these waiters have no place any more.
    o.aside = false
    return
  end
  if first[1] then
    local number = tonumber(first[2])
    -- What is written of a queue that was empty says nothing of this one.
    if number <= o.up or o.n == 0 and o.had then let_anew(o) end
    if number <= o.over then o.over, o.most, o.relet = 0, 0, true end
  end
  for i = 1, #first, 2 do
    entries[i], entries[i + 1] = first[i + 1], first[i]
    tickets[#tickets + 1], fields[#fields + 1] = first[i], 'w' .. first[i]
  end
  if fields[1] then
    call('ZADD', o.q, unpack(entries))
    call('ZREM', key, unpack(tickets))
    for _, record in ipairs(call('HMGET', o.h, unpack(fields))) do
      local weight, lease = string.match(record or '', '^%x+ (%d+) (%d+)')
      o.big, o.wl = math.max(o.big, tonumber(weight) or 0), math.max(o.wl, tonumber(lease) or 0)
    end
    moves = moves - #fields
    o.first = o.first or o.n == 0
    o.n, o.out = o.n + #fields, math.max(o.out - #fields, 0)
    put(o, 'n', o.n)
    put(o, 'out', o.out)
    put(o, 'big', o.big)
    put(o, 'wl', int(o.wl))
  end
  if #fields < most then
    call('ZREM', o.e, 'd' .. PROCESS)
    call('HDEL', o.h, 'd' .. PROCESS)
    o.aside = false
  end
end

-- Calls `visit` for each live waiter behind the arrival number `from` in order of arrival, until it
-- returns true or the ticket `stop` is reached. A waiter counts as live up to `till`. The silent
-- waiters on the way are put aside, so that they cost this once; one that was unheard for its lease
-- is removed for good. If there are more of these than one call moves, or more live ones than it
-- looks at, it stops and sets `o.unfinished`. Returns whether it came to the end of the queue.
-- O(log Q + visited + moved).
local function each_waiter(o, visit, from, stop)
  local at, number, chunk, gone, done = 0, from > 0 and '(' .. int(from) or '-inf', 1, 0, o.n == 0
  -- Whoever is silent is not among those who are let in from here on.
  local up = o.up
  while not done do
    if looks <= 0 then
      o.unfinished, done = true, true
      break
    end
    local front = call('ZRANGEBYSCORE', o.q, number, '+inf', 'WITHSCORES', 'LIMIT', 0, math.min(chunk, looks))
    if #front == 0 then break end
    if front[1] == stop then
      done = true
      break
    end
    looks = looks - #front / 2
    number = '(' .. front[#front]
    local fields, processes, waiters = {}, {}, {}
    for i = 1, #front, 2 do fields[#fields + 1] = 'w' .. front[i] end
    for i, record in ipairs(call('HMGET', o.h, unpack(fields))) do
      local process, weight, lease, since = string.match(record or '', '^(%x+) (%d+) (%d+) (%d+)')
      processes[i] = process or ''
      waiters[i] = { ticket = front[2 * i - 1], number = tonumber(front[2 * i]), process = process, weight = tonumber(weight),
                     lease = tonumber(lease), since = math.min(tonumber(since) or 0, now) }
    end
    local scores = call('ZMSCORE', o.live, unpack(processes))
    local silent = {}
    for i, w in ipairs(waiters) do
      if done then break end
      w.till = w.process and alive(o, w, scores[i]) or 0
      local unheard = w.till <= now and w.process and math.max(w.since, math.abs(w.heard)) + w.lease
      if w.till > now then
        at = at + 1
        done = w.ticket == stop or visit(w)
      elseif moves <= 0 then
        o.unfinished, done = true, true
      elseif not unheard or unheard < now then
        call('ZREM', o.q, w.ticket)
        call('HDEL', o.h, fields[i])
        if w.weight and o.lim and w.number <= up then come(o, w.number, w.weight) end
        gone, moves = gone + 1, moves - 1
      else
        moves = moves - 1
        local of = silent[w.process] or { entries = {}, tickets = {}, waiters = {}, expiry = 0 }
        silent[w.process], of.expiry = of, math.max(of.expiry, unheard + 1)
        of.entries[#of.entries + 1], of.entries[#of.entries + 2] = int(w.number), w.ticket
        of.tickets[#of.tickets + 1], of.waiters[#of.waiters + 1] = w.ticket, w
      end
    end
    for process, of in pairs(silent) do
      if put_aside(o, process, of.entries, of.tickets, of.expiry) then
        gone = gone + #of.tickets
        for _, w in ipairs(of.waiters) do
          if o.lim and w.number <= up then come(o, w.number, w.weight) end
        end
      else
        -- Nothing was moved, so nothing bounds the walk.
        at, moves = at + #of.tickets, moves + #of.tickets
      end
    end
    chunk = math.min(chunk * 4, 256)
  end
  local n = o.n
  if gone > 0 then
    n = call('ZCARD', o.q)
  elseif not done and from == 0 then
    n = at
  end
  if n ~= o.n then
    o.n = n
    put(o, 'n', n)
  end
  return not done
end

local boxes = {}

-- Notes a hint for the process of a waiter.
local function push(o, process, ticket)
  local box = string.sub(o.live, 1, -5) .. 'box:' .. process
  local hints = boxes[box] or {}
  boxes[box] = hints
  hints[#hints + 1] = ticket
end

-- Puts the hints into the mailboxes, those to one process as one element. A mailbox is bounded by
-- tickets, more or less. A foreign value under that key is left alone.
local function send_hints()
  for box, hints in pairs(boxes) do
    local length = redis.pcall('RPUSH', box, table.concat(hints))
    if type(length) == 'number' then
      local most = math.ceil(BOX_LENGTH / math.ceil(#hints / 32))
      if length > most then call('LTRIM', box, -most, -1) end
      call('PEXPIRE', box, BOX_MS)
    end
  end
  boxes = {}
end

-- Tells those who are larger than the limit, wherever they stand: they can never be let in. With
-- many waiters, a part of them; then `o.unfinished` is set. Tickets of the process `own` are put
-- into `ready` instead. Round after round, until none is left: a hint may be lost. O(Q), in parts.
local function tell_large(o, own, ready)
  if o.big <= o.lim then return end
  local all = each_waiter(o, function(w)
    if tells <= 0 then
      o.unfinished = true
      return true
    end
    o.over, o.most, o.relet = w.number, math.max(o.most, w.weight), true
    if w.weight <= o.lim then return end
    tells = tells - 1
    if w.process == own then
      ready[#ready + 1] = w.ticket
    else
      push(o, w.process, w.ticket)
    end
  end, o.over)
  if all then
    o.big, o.over, o.most, o.relet = o.most, 0, 0, true
    put(o, 'big', o.big)
  end
end

-- Lets the next waiters in: those behind the ones who were let in before, as many as fit together,
-- up to the first live one that does not fit. Those larger than the limit are passed over. With
-- `tell` their processes get hints, but `own`: its tickets are put into `ready`. Returns when the
-- liveness of a waiter of another process ends that it came upon, and whether it let such a one in.
-- O(let in).
local function let_in(o, own, ready, tell)
  local room, first, soon, others = o.lim - o.used - o.room, true, NEVER, false
  if room <= 0 or o.n <= o.due then return soon, others end
  local before = o.due
  each_waiter(o, function(w)
    if w.weight <= o.lim then
      local fits = w.weight <= room and (tells > 0 or first)
      if w.process ~= own and (fits or w.weight > room) then soon = math.min(soon, w.till) end
      if not fits then return true end
      room, tells, first = room - w.weight, tells - 1, false
      if w.process == own then
        ready[#ready + 1] = w.ticket
      else
        others = true
        if tell then push(o, w.process, w.ticket) end
      end
      o.due, o.room = o.due + 1, o.room + w.weight
    end
    if not o.mutex then o.up, o.relet = w.number, true end
    return room <= 0
  end, o.up)
  if o.mutex then
    o.due, o.room = 0, 0
  elseif o.due > before then
    o.told = o.due
  end
  return soon, others
end

-- Puts the loaded ticket into Q with an arrival number.
local function join(o, weight, lease, number)
  o.seq = math.max(o.seq, number)
  local first = o.n == 0
  if first and o.had then o.relet = true end
  o.first = o.first or first
  o.wl = first and lease or math.max(o.wl, lease)
  o.big = first and weight or math.max(o.big, weight)
  call('ZADD', o.q, int(number), o.ticket)
  o.n = o.n + 1
  put(o, 'seq', int(o.seq))
  put(o, 'join', NOW)
  put(o, 'n', o.n)
  put(o, 'wl', int(o.wl))
  put(o, 'big', o.big)
  put(o, 'w' .. o.ticket, PROCESS .. ' ' .. weight .. ' ' .. int(lease) .. ' ' .. NOW .. ' ' .. int(number))
end
