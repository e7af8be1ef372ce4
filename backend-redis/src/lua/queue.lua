-- The waiters: which of them live, and which are next. Put behind `shared.lua`.

local SWEEP = 1000000
local MAX_LEASE = 86400000000
local BOX_MS, BOX_LENGTH = 10000, 10000
-- Maximum number of waiters that one call puts back, puts aside or removes.
local moves = 500

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

-- Calls `visit` for each live waiter in order of arrival, until it returns true or the ticket
-- `stop` is reached. A waiter counts as live up to `till`. The silent waiters on the way are put
-- aside, so that they cost this once; one that was unheard for its lease is removed for good. If
-- there are more of these than one call moves, it stops and sets `o.unfinished`. Returns whether it
-- came to the end of the queue. O(log Q + visited + moved).
local function each_waiter(o, visit, stop)
  local at, chunk, gone, done = 0, 1, 0, false
  while not done and o.n > 0 do
    local front = call('ZRANGE', o.q, at, at + chunk - 1, 'WITHSCORES')
    if #front == 0 then break end
    if front[1] == stop then
      done = true
      break
    end
    local fields, processes, waiters = {}, {}, {}
    for i = 1, #front, 2 do fields[#fields + 1] = 'w' .. front[i] end
    for i, record in ipairs(call('HMGET', o.h, unpack(fields))) do
      local process, weight, lease, since = string.match(record or '', '^(%x+) (%d+) (%d+) (%d+)')
      processes[i] = process or ''
      waiters[i] = { ticket = front[2 * i - 1], number = front[2 * i], process = process, weight = tonumber(weight),
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
        gone, moves = gone + 1, moves - 1
      else
        moves = moves - 1
        local of = silent[w.process] or { entries = {}, tickets = {}, expiry = 0 }
        silent[w.process], of.expiry = of, math.max(of.expiry, unheard + 1)
        of.entries[#of.entries + 1], of.entries[#of.entries + 2] = w.number, w.ticket
        of.tickets[#of.tickets + 1] = w.ticket
      end
    end
    for process, of in pairs(silent) do
      if put_aside(o, process, of.entries, of.tickets, of.expiry) then
        gone = gone + #of.tickets
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
  elseif not done then
    n = at
  end
  if n ~= o.n then
    o.n = n
    put(o, 'n', n)
  end
  return not done
end

-- Puts a hint into the mailbox of the waiter's process. A foreign value under that key is left
-- alone.
local function push(o, w)
  local box = string.sub(o.live, 1, -5) .. 'box:' .. w.process
  local length = redis.pcall('RPUSH', box, w.ticket)
  if type(length) ~= 'number' then return end
  if length > BOX_LENGTH then call('LTRIM', box, -BOX_LENGTH, -1) end
  call('PEXPIRE', box, BOX_MS)
end

-- Finds the next grants: the first live waiters that fit together, up to the first one that does
-- not fit. Waiters larger than the limit are named too, and passed over. For `own`, the asking
-- process, it returns the tickets that no waiter of another process stands in front of, when the
-- liveness of such a waiter ends, and whether there is room that such a waiter is about to take.
-- With `tell`, the waiters of
-- other processes get hints. O(front); O(Q) while a waiter larger than the limit may queue.
local function next_grants(o, own, tell)
  local ready, soon = {}, NEVER
  local room, heaviest, others = o.lim - o.used, 0, false
  if o.n == 0 or (room <= 0 and o.big <= o.lim) then return ready, soon, false end
  local open = room > 0
  local all = each_waiter(o, function(w)
    heaviest = math.max(heaviest, w.weight)
    local mine, large = w.process == own, w.weight > o.lim
    if large or open then
      if not large then
        if not mine then soon = math.min(soon, w.till) end
        open = w.weight <= room
        if open then
          room = room - w.weight
          others = others or not mine
        end
      end
      if large or open then
        if not mine then
          if tell then push(o, w) end
        elseif large or not others then
          ready[#ready + 1] = w.ticket
        end
      end
      open = open and room > 0
    end
    return not open and o.big <= o.lim
  end)
  if all and heaviest < o.big then
    o.big = heaviest
    put(o, 'big', heaviest)
  end
  return ready, soon, others
end

