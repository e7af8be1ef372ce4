-- Short forms: the strings that the steps `fast_path` and `fast_permits` keep for what nobody waits
-- for. Any other step makes a hash of such a string first, and afterwards a string of the hash if
-- it can. Put behind `permits.lua` and `shared.lua`.

-- A name that no waiter queued for in this time, and that had few holds, is kept as a string. In
-- µs; `busy.rs` has it, too.
local QUIET = 1000000
-- Maximum number of holds of a string.
local MOST = 16

-- Reads the string of a mutex, see `fast_path`; nil for any other.
local function read_mutex(o, text)
  local ticket, token, granted, lease, label = string.match(text, '^(%x+) (%d+) (%d+) (%d+)(.*)$')
  if not ticket or #ticket ~= 32 then return nil end
  -- The end of the key in whole ms, so that the string that it becomes again ends then, however
  -- often it does. A millisecond that begins between the two questions would move it.
  local left, ms
  for _ = 1, 10 do
    local before, after
    before, left, after = call('TIME'), call('PTTL', o.h), call('TIME')
    ms = after[1] * 1000 + math.floor(after[2] / 1000)
    if before[1] * 1000 + math.floor(before[2] / 1000) == ms then break end
  end
  -- The hold cannot last longer than its lease, whatever the clock was when it was granted.
  local ends = (ms + (left < 0 and lease or math.min(left, lease))) * 1000
  local hold = { ticket = ticket, expiry = ends, granted = granted, weight = 1, token = token, label = label }
  return { lim = 1, touch = now, expires = 0, used = 1, last = math.max(ends, now), holds = { hold } }
end

-- Returns what a short form says; nil if it is none.
short_form = function(o)
  local text = redis.pcall('GET', o.h)
  if type(text) == 'table' and not string.find(words(text), 'WRONGTYPE', 1, true) then error(text) end
  if type(text) ~= 'string' then return nil end
  return o.mutex and read_mutex(o, text) or o.semaphore and read_permits(text, now) or nil
end

-- Returns a hold of a short form as H would have it.
local function hold_text(hold)
  local label = hold.label or string.sub(hold.text, hold.label_at, hold.stop - 1)
  return table.concat({ int(hold.expiry), hold.granted, hold.weight, hold.token }, ' ') .. label
end

-- Makes a hash of a short form; a foreign string stays. Nothing is noted as its use: a step that
-- only looks does not make it stay (C25).
expand = function(o, cause)
  -- Any other cause, such as a missing right, says nothing about the value.
  if not string.find(words(cause), 'WRONGTYPE', 1, true) then error(cause) end
  local p = short_form(o)
  if not p then error(cause) end
  conversions = conversions - 1
  local entries, fields, next = { '+inf', '!' }, {}, NEVER
  for _, hold in ipairs(p.holds) do
    entries[#entries + 1], entries[#entries + 2] = int(hold.expiry), hold.ticket
    fields[#fields + 1], fields[#fields + 2] = 'h' .. hold.ticket, hold_text(hold)
    next = math.min(next, hold.expiry)
  end
  local expires = p.expires > 0 and p.expires or p.last + o.stay
  local at = int(math.ceil(expires / 1000))
  -- Where the slot moves to another node, this fails before anything was changed.
  call('ZADD', o.e, unpack(entries))
  call('DEL', o.h)
  call('HSET', o.h, 'lim', int(p.lim), 'used', int(p.used), 'next', int(next), 'el', int(p.last - now), 'at', NOW,
       'touch', int(p.touch), 'epoch', NOW, 'expires', int(expires), unpack(fields))
  call('PEXPIREAT', o.h, at)
  call('PEXPIREAT', o.e, at)
  o.wake = true
end

-- Returns the holds of a record, as `read_permits` does, if nothing else is in E; nil otherwise.
local function sole_holds(o)
  local holds, fields = {}, {}
  for _, member in ipairs(call('ZRANGE', o.e, 0, -1)) do
    if #member == 32 then
      holds[#holds + 1], fields[#fields + 1] = { ticket = member }, 'h' .. member
    elseif member ~= '!' then
      -- Tombstones stay.
      return nil
    end
  end
  for i, record in ipairs(fields[1] and call('HMGET', o.h, unpack(fields)) or {}) do
    local expiry, granted, weight, token, label = string.match(record or '', '^(%d+) (%d+) (%d+) (%d+)(.*)$')
    if not expiry then return nil end
    local hold = holds[i]
    hold.granted, hold.token, hold.label, hold.expiry = granted, token, label, tonumber(expiry)
    hold.rest = ' ' .. granted .. ' ' .. token .. ' ' .. weight .. ' ' .. #label .. label
    set_end(hold, hold.expiry, hold.expiry - now)
  end
  return holds
end

-- Makes a string of a record without waiters, unless a waiter queued or holds were many lately. A
-- free mutex has no key at all.
local function compact(o)
  if o.n > 0 or o.out > 0 or not (o.mutex or o.semaphore and o.lim) then return end
  local is_recent = math.abs(now - o.join) < QUIET
  if call('ZCARD', o.e) > (o.mutex and 2 or MOST + 1) then
    -- The form does not change with each hold. The note is not worth a refusal.
    if o.semaphore and not is_recent then redis.pcall('HSET', o.h, 'join', NOW) end
    return
  end
  if conversions <= 0 or is_recent and not (o.mutex and o.used == 0) then return end
  conversions = conversions - 1
  local holds = sole_holds(o)
  if not holds then return end
  local text, ends
  if o.semaphore then
    text, ends = permits_text({ lim = o.lim, touch = o.touch, expires = o.expires_at, holds = holds })
  elseif holds[1] then
    local hold = holds[1]
    local left = int(math.ceil(math.max(hold.expiry - now, 1000) / 1000))
    text = string.format('%s %016d %016d %s%s', hold.ticket, hold.token, hold.granted, left, hold.label)
    ends = int(math.ceil(hold.expiry / 1000))
  end
  if text then
    -- Over the hash: while the slot moves to another node, a key that is missing cannot be made.
    call('SET', o.h, text, 'PXAT', ends)
    call('DEL', o.e)
  else
    call('DEL', o.h, o.e)
  end
end
