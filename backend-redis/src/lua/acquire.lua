-- acquire: grants, queues or refuses, first come, first served among the live.
--
-- ARGV     for each entry: ticket, weight, lease, limit, check (`r` refuse, `a` adopt or follow,
--          `p` replace),
--          queue (`1` or `0`; `n`: and say where a granted ticket stood), max_waiters (or empty),
--          label (a space and the text, or empty)
-- Returns  {0, token, limit} granted, of a wait group {0, token, limit, epoch}; with `n`
--          {0, token, limit, epoch, number, 1 if it had waited}
--          {1, limit, epoch} waiting, 0 if not queued   {2} cancelled before
--          {3, stored} limits differ   {4, limit} too large  {5} the queue is at its bound
-- Complexity  O(log E); with a queue O(log Q + waiters passed over).
-- Retry    the ticket names the acquisition: one that holds gets its lease anew and the same token,
--          one that queues keeps its place.

-- Whether the request fits beside all who hold and were let in, and no other live waiter stands in
-- front. Those that can never be served do not count.
local function fits(o, weight)
  if o.used + weight > o.lim then return false end
  -- What was kept for silent ones in front is free.
  if o.used + o.room + weight > o.lim then each_waiter(o, function() return true end, 0) end
  if o.used + o.room + weight > o.lim then return false end
  if o.n <= o.due then return true end
  local front = true
  each_waiter(o, function(w)
    if w.weight <= o.lim then
      front = false
      return true
    end
    if not o.mutex then o.up, o.relet = w.number, true end
  end, o.up, o.place and o.ticket)
  return front
end

-- Whether the queue is at its bound. The silent do not count; all of them are put aside at most
-- once a second.
local function full(o, bound)
  if not bound or o.n < bound then return false end
  if o.sweep > 0 or math.abs(now - o.swept) >= SWEEP then
    local at = o.sweep
    if each_waiter(o, function(w) at = w.number end, at) then
      at, o.swept = 0, now
      put(o, 'swept', NOW)
    end
    if at ~= o.sweep then
      o.sweep = at
      put(o, 'sweep', int(at))
    end
  end
  return o.n >= bound
end

-- Grants the loaded ticket, which stands at `number` if it has waited.
local function grant(o, weight, lease, label, number, is_numbered)
  local token, text = next_token(o)
  if not token then return { -1, o.mark, 'string' } end
  local answer = { 0, token, o.lim, epoch_of(o) }
  if is_numbered then
    if not number then
      more(o)
      o.seq = o.seq + 1
      put(o, 'seq', int(o.seq))
    end
    answer[4], answer[5], answer[6] = answer[4] or 0, number or o.seq, number and 1 or 0
  end
  local expiry = expire(o, o.ticket, now + lease)
  if o.place then
    local woken, due = o.wake, o.due
    leave(o)
    -- Of those who were let in, the one that makes them half lets the next ones in.
    local is_next = o.due == due or o.due * 2 <= o.told
    o.wake = woken or is_next and o.used + o.room + weight < o.lim
  end
  o.used = o.used + weight
  if o.v then opened(o) end
  if o.brought then put(o, 'lim', o.lim) end
  put(o, 'used', o.used)
  put(o, 'h' .. o.ticket, expiry .. ' ' .. NOW .. ' ' .. weight .. ' ' .. text .. label)
  -- It may become a string.
  o.tidy = o.mutex or o.semaphore
  return answer
end

-- Takes a new limit back.
local function restore(o)
  if o.replaced then
    o.lim = o.replaced
    put(o, 'lim', o.lim)
  end
end

return run(8, function(o, at)
  local weight, lease, limit = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local check, queue, is_numbered = ARGV[at + 5], ARGV[at + 6] ~= '0', ARGV[at + 6] == 'n'
  if not load(o, ARGV[at + 1]) then return { -2 } end
  if o.tombstone then return { 2 } end
  o.lease = lease
  if o.hold then
    local _, token = extend(o, lease)
    return { 0, token, o.lim, epoch_of(o) }
  end
  -- No process overtakes its own waiters.
  put_back(o)
  if o.aside then
    mark_live(o, math.max(o.wl, lease))
    return { -2 }
  end
  -- Of a queue of the dead alone nothing may be left.
  if o.n > 0 and o.used == 0 and now - o.touch > STATE then
    each_waiter(o, function() return true end, 0)
    if o.unfinished then return { -2 } end
  end
  if not o.lim or stale(o) then
    o.lim, o.brought = limit, true
  elseif o.place then
    -- A retry: the limits were compared when the ticket joined.
  elseif o.lim ~= limit and check == 'r' then
    return { 3, o.lim }
  elseif o.lim ~= limit and check == 'p' then
    -- A refused request changes nothing.
    if weight > limit then return { 4, limit } end
    o.replaced = o.lim
    o.lim = limit
    let_anew(o)
    put(o, 'lim', limit)
  end
  if weight > o.lim then
    leave(o)
    return { 4, o.lim }
  end
  local number = tonumber(string.match(o.place or '', '(%d+)$'))
  if number and number <= o.up and o.used + weight <= o.lim then
    return grant(o, weight, lease, ARGV[at + 8], number, is_numbered)
  end
  local fit = fits(o, weight)
  if o.unfinished then
    restore(o)
    return { -2 }
  end
  if fit then return grant(o, weight, lease, ARGV[at + 8], number, is_numbered) end
  if not queue then
    leave(o)
    return { 1, o.lim, 0 }
  end
  mark_live(o, lease)
  more(o)
  if not o.place then
    if full(o, tonumber(ARGV[at + 7])) then
      restore(o)
      return { o.unfinished and -2 or 5 }
    end
    join(o, weight, lease, o.seq + 1)
  end
  return { 1, o.lim, o.epoch }
end)
