-- list: a part of the names of a namespace that have state, with their figures. It writes nothing
-- but the beginning of a grace period (`places.lua`).
--
-- KEYS     1 the key `mark` of the stripe whose server is asked  2 a key that never is: with it, a
--          cluster refuses the call while the keys of the stripe are on two nodes
-- ARGV     1 the pattern of the records' keys  2 the server process that gave the position, or ''
--          3 the position
--          4 about how many names are wanted  5 retention
-- Returns  {process, next position, now, then for each record "key kind figures"}. The position is
--          '0' at the end. A position of another process means nothing to this one: then the scan
--          begins again. `figures` is
--          for permits  holders (-1 if there are more than one call counts), weight (-1 likewise),
--                       waiters, limit or 0, and the time since the last use (-1 if only the
--                       next step on the name will know)
--          for a limiter  the field `s` of its record     for a filter  the field `f` of its record
-- Complexity  O(KEYS_MOST + wanted): it looks at no more keys, and no more members of sorted sets,
--          than these, whatever the server has. Behind `common.lua`, `permits.lua` and
--          `places.lua`.
-- Retry    asks again.

local call = redis.call
-- Maximum number of keys that one call looks at, or a few more; of records that it reads, or a
-- step's more; of keys that one step of it looks at; of members of the sets of holds; and of places
-- of waiters, of one record and of all.
local KEYS_MOST, RECORDS_MOST, STEP_MOST, members, PLACES_MOST, places = 2000, 500, 250, 2000, 100, 1000

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local RETENTION = tonumber(ARGV[5])

-- Returns the figures of a mutex or a semaphore whose record is a string; nil if it is none of
-- ours.
local function of_string(key, kind)
  local text = call('GET', key)
  if not text then return nil end
  if kind == 'm' then
    -- The key expires with the lease.
    return string.match(text, '^%x+ %d+ %d+ %d+') and { 1, 1, 0, 1, 0 }
  end
  local p = kind == 's' and read_permits(text, now)
  if not p or p.used == 0 and now - p.touch > RETENTION then return nil end
  return { #p.holds, p.used, 0, p.lim, p.used > 0 and 0 or now - p.touch }
end

-- Counts the holds of a record that last, and their weight; -1 where there are too many to be
-- counted here. `used` is the weight of those that were not removed yet, of which some have expired
-- if `is_exact` is not set.
local function holds_of(key, entries, used, is_exact)
  if used == 0 or is_exact and used == 1 then return used, used end
  local most = math.min(members, 500)
  local found = most > 0 and call('ZRANGEBYSCORE', entries, '(' .. string.format('%d', now), '+inf', 'LIMIT', 0, most) or {}
  members = members - #found
  if most == 0 or #found == most then return -1, is_exact and used or -1 end
  local fields, weight = {}, 0
  for _, member in ipairs(found) do
    if #member == 32 then fields[#fields + 1] = 'h' .. member end
  end
  if is_exact then return #fields, used end
  for _, hold in ipairs(fields[1] and call('HMGET', key, unpack(fields)) or {}) do
    weight = weight + tonumber(string.match(hold or '', '^%d+ %d+ (%d+)') or 0)
  end
  return #fields, weight
end

-- Returns how many waiters have a place that is not lost: `n` in the queue, `out` put aside. Places
-- behind those that can be judged here count.
local function waiters_of(key, prefix, kind, name, n, out)
  local most = math.min(n, PLACES_MOST, places)
  if most > 0 then
    places = places - most
    local tickets = redis.pcall('ZRANGE', prefix .. kind .. 'q:' .. name, 0, most - 1)
    n = n - (tickets.err and 0 or lost_places(key, prefix .. 'live', prefix .. 'grace', tickets, now))
  end
  most = math.min(out, PLACES_MOST, places)
  if most > 0 then
    places = places - most
    local ended = redis.pcall('ZRANGEBYSCORE', prefix .. kind .. 'e:' .. name, '-inf', string.format('%d', now), 'LIMIT', 0, most)
    for _, member in ipairs(ended.err and {} or ended) do
      if #member == 33 and string.byte(member) == 100 then
        local silent = redis.pcall('ZCARD', prefix .. kind .. 'd:' .. string.sub(member, 2) .. ':' .. name)
        out = out - (type(silent) == 'number' and silent or 0)
      end
    end
  end
  return math.max(n, 0) + math.max(out, 0)
end

-- Returns the figures of a mutex, a semaphore or a wait group whose record is a hash; nil if it has
-- no state.
local function of_hash(key, kind, name_at)
  local r = call('HMGET', key, 'lim', 'used', 'n', 'out', 'next', 'touch')
  local limit, used, touch = tonumber(r[1]) or 0, tonumber(r[2]) or 0, math.min(tonumber(r[6]) or 0, now)
  local prefix, name = string.sub(key, 1, name_at - 3), string.sub(key, name_at)
  local waiters = waiters_of(key, prefix, kind, name, tonumber(r[3]) or 0, tonumber(r[4]) or 0)
  local entries = prefix .. kind .. 'e:' .. name
  local holders, weight = holds_of(key, entries, used, (tonumber(r[5]) or 0) > now)
  local in_use, has_ended = weight ~= 0 or waiters > 0, weight == 0 and used > 0
  if not in_use and (kind == 'm' or not has_ended and now - touch > RETENTION) then return nil end
  local idle = in_use and 0 or has_ended and -1 or now - touch
  return { holders, weight, waiters, kind == 'm' and 1 or limit, idle }
end

-- Returns the figures of a record; nil if it is not ours, or has no state.
local function figures(key)
  local kind, name_at = string.match(key, '^{[^}]*}:([mswlb]):()')
  if not kind then return nil end
  local form = call('TYPE', key)['ok']
  if form == 'string' then
    local told = of_string(key, kind)
    return told and kind, told and table.concat(told, ' ')
  end
  if form ~= 'hash' then return nil end
  if kind == 'l' or kind == 'b' then
    local text = call('HGET', key, kind == 'l' and 's' or 'f')
    return text and kind, text
  end
  local told = of_hash(key, kind, name_at)
  return told and kind, told and table.concat(told, ' ')
end

local process = process_id()
local position = ARGV[2] == process and ARGV[3] or '0'
local wanted = tonumber(ARGV[4])
local step = math.max(10, math.min(wanted, STEP_MOST))
local answer, looked_at, records = { process, '', string.format('%d', now) }, 0, 0
repeat
  local page = call('SCAN', position, 'MATCH', ARGV[1], 'COUNT', step)
  position, looked_at = page[1], looked_at + step
  records = records + #page[2]
  for _, key in ipairs(page[2]) do
    local kind, told = figures(key)
    if kind then
      answer[#answer + 1], answer[#answer + 2] = key, told
    end
  end
until position == '0' or (#answer - 3) / 2 >= wanted or records >= RECORDS_MOST or looked_at >= KEYS_MOST
answer[2] = position
return answer
