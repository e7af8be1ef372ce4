-- Places of waiters and the liveness of their processes, and positions in a scan. Put behind
-- `common.lua`, in front of `shared.lua` and of `list.lua`.

-- Returns the identity of this server process: positions of one mean nothing to another. A user
-- without the right to ask is taken to be where it was.
local function process_id()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '0'
end

-- Waiting processes are heard three times in `LIVENESS`. If none was heard for `UNHEARD`, the
-- silence is not theirs.
local LIVENESS, UNHEARD, GRACE = 1000000, 600000, 2000000
-- Maximum number of processes that one call marks.
local MARKS = 500

local stripes = {}

-- Reads the liveness of a stripe, once for all of a step. `live` and `grace` are the keys of
-- `shared.lua`. If no process was heard for `UNHEARD`, the store may have been stalled or
-- restarted: a grace period begins, during which no process is judged dead. Processes silent for a
-- whole grace period are marked dead, so that they do not count as live in the next one: `MARKS` of
-- them at most, and the others then count as live for that period.
local function liveness_of(live, grace, now)
  local s = stripes[live]
  if s then return s end
  local call = redis.call
  s = { start = tonumber(call('GET', grace)) or 0, marked = 0 }
  -- After the clock went back, times that lie ahead count as now.
  if s.start > now then s.start = 0 end
  local last = tonumber(call('ZREVRANGE', live, 0, 0, 'WITHSCORES')[2]) or 0
  if last > now + LIVENESS then
    for _, process in ipairs(call('ZRANGEBYSCORE', live, '(' .. int(now), '+inf', 'LIMIT', 0, MARKS)) do
      call('ZADD', live, int(now), process)
    end
  elseif last > 0 and last < now - UNHEARD and now >= s.start + GRACE then
    if s.start > 0 then
      s.marked = s.start
      local silent, marks = call('ZRANGEBYSCORE', live, 1, '(' .. int(s.start), 'WITHSCORES', 'LIMIT', 0, MARKS), {}
      for i = 1, #silent, 2 do marks[i], marks[i + 1] = '-' .. silent[i + 1], silent[i] end
      if silent[1] then call('ZADD', live, unpack(marks)) end
    end
    if last >= s.start then
      s.start = now
      call('SET', grace, int(now), 'PX', math.max(GRACE / 1000, call('PTTL', live)))
    end
  end
  stripes[live] = s
  return s
end

-- Returns how many of these places, 500 at most, are lost: their process was silent for the lease
-- of their request, a second at least, and the silence is not that of the store. The next step that
-- comes upon them removes them. `h`, `live` and `grace` are keys of `shared.lua`. What cannot be
-- read counts as a place. O(tickets).
local function lost_places(h, live, grace, tickets, now)
  if not tickets[1] then return 0 end
  local fields, processes, places, lost = {}, {}, {}, 0
  for i, ticket in ipairs(tickets) do fields[i] = 'w' .. ticket end
  for i, record in ipairs(redis.call('HMGET', h, unpack(fields))) do
    local process, lease, since = string.match(record or '', '^(%x+) %d+ (%d+) (%d+)')
    processes[i] = process or ''
    places[i] = { lease = math.max(tonumber(lease) or 0, 1000000), since = math.min(tonumber(since) or 0, now) }
  end
  -- A process that was judged dead has a negative time.
  local heard = redis.pcall('ZMSCORE', live, unpack(processes))
  if heard.err then return 0 end
  for i, place in ipairs(places) do
    local score = tonumber(heard[i]) or place.since
    if math.max(math.abs(score), place.since) + place.lease < now then
      local ok, s = pcall(liveness_of, live, grace, now)
      if not ok then return 0 end
      -- The score may have been read before the mark was made.
      if score < s.marked or s.start + GRACE <= now then lost = lost + 1 end
    end
  end
  return lost
end
