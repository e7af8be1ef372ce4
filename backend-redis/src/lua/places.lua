-- What steps know of places of waiters, and of positions in a scan, that change none. Put in front of `shared.lua`, and of
-- `list.lua`.

-- Returns the identity of this server process: positions of one mean nothing to another.
local function process_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

-- Returns how many of these places, 500 at most, are lost: their process was silent for the lease of their request, a second at
-- least. The next step that comes upon them removes them. `h` and `live` are the keys H and `live` of `shared.lua`. O(tickets).
local function lost_places(h, live, tickets, now)
  if not tickets[1] then return 0 end
  local fields, processes, ends, lost = {}, {}, {}, 0
  for i, ticket in ipairs(tickets) do fields[i] = 'w' .. ticket end
  for i, record in ipairs(redis.call('HMGET', h, unpack(fields))) do
    local process, lease, since = string.match(record or '', '^(%x+) %d+ (%d+) (%d+)')
    lease = math.max(tonumber(lease) or 0, 1000000)
    processes[i], ends[i] = process or '', { lease, math.min(tonumber(since) or 0, now) }
  end
  -- A process that was judged dead has a negative time.
  local heard = redis.pcall('ZMSCORE', live, unpack(processes))
  if heard.err then return 0 end
  for i, place in ipairs(ends) do
    local last = math.max(math.abs(tonumber(heard[i]) or 0), place[2])
    if last + place[1] < now then lost = lost + 1 end
  end
  return lost
end

