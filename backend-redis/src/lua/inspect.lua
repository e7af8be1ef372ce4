-- inspect: the state of objects at this instant, and a part of their holds. It writes nothing but
-- the end of what has expired, and the beginning of a grace period.
--
-- ARGV     for each entry: where the part begins: '' tells no holds, '0' is the first part, after
--          that what the part before returned; and the server process that returned it, or ''
-- Returns  {now, limit or 0, waiters, weight of all holds, process, next, ticket, hold, ticket,
--          hold, ...}, a hold as in H. With a `next` other than '0' there are more: then a hold
--          that lasts all through is in one part at least, and others may be. Parts after the first
--          tell 0 waiters.
-- Complexity  O(MOST), and for the waiters O(min(Q, 600)). With few holds there is one part, of
--          one instant; more are read as
--          H happens to have them, waiters and tombstones included.
-- Retry    asks again.

-- Maximum number of members of E for one part; of fields of H that one part looks at, or a few
-- more.
local MOST, FIELDS = 1000, 900
-- Maximum number of places that one call judges. Those behind them all count.
local places = 600

-- Returns how many of the first places in the queue are lost.
local function lost_in_queue(o)
  local lost, at, most = 0, 0, math.min(o.n, places)
  places = places - most
  while at < most do
    local last = math.min(at + 500, most) - 1
    lost = lost + lost_places(o.h, o.live, o.grace, call('ZRANGE', o.q, at, last), now)
    at = last + 1
  end
  return lost
end

-- Adds all holds of few.
local function all_holds(o, answer)
  for at = 0, MOST, 500 do
    local tickets, fields = {}, {}
    for _, member in ipairs(call('ZRANGE', o.e, at, at + 499)) do
      if #member == 32 then
        tickets[#tickets + 1] = member
        fields[#fields + 1] = 'h' .. member
      end
    end
    for i, hold in ipairs(fields[1] and call('HMGET', o.h, unpack(fields)) or {}) do
      if hold then
        answer[#answer + 1], answer[#answer + 2] = tickets[i], hold
      end
    end
  end
end

-- Adds a part of the holds of many; returns where the next part begins.
local function some_holds(o, answer, from)
  local page = call('HSCAN', o.h, from, 'MATCH', 'h*', 'COUNT', FIELDS)
  local fields, n = page[2], #answer
  for i = 1, #fields, 2 do
    if #fields[i] == 33 then
      answer[n + 1], answer[n + 2] = string.sub(fields[i], 2), fields[i + 1]
      n = n + 2
    end
  end
  return page[1]
end

return run(2, function(o, at)
  local from, process = ARGV[at + 1], ARGV[at + 2]
  -- A look at a short form writes nothing.
  local short = short_form(o)
  if short then
    local forgotten = short.used == 0 and now - short.touch > STATE
    local answer = { now, forgotten and 0 or short.lim, 0, short.used, '', '0' }
    for _, hold in ipairs(from ~= '' and short.holds or {}) do
      answer[#answer + 1], answer[#answer + 2] = hold.ticket, hold_text(hold)
    end
    return answer
  end
  if not load(o, '') then return { -2 } end
  local is_first = from == '' or from == '0'
  local waiters = is_first and o.n + o.out - lost_in_queue(o) or 0
  local answer = { now, not stale(o) and o.lim or 0, waiters, o.used, '', '0' }
  if from == '' then return answer end
  if from == '0' and call('ZCARD', o.e) <= MOST then
    all_holds(o, answer)
    return answer
  end
  answer[5] = process_id()
  answer[6] = some_holds(o, answer, answer[5] == process and from or '0')
  return answer
end)
