-- Permits as one string: what `fast_permits` and, in `forms.lua`, all other steps know of it.
--
-- "p LIMIT TOUCH EXPIRES", and for each hold " TICKET EXPIRY LEASE GRANTED TOKEN WEIGHT LENGTH LABEL": the label is what
-- stands behind the `LENGTH`, of so many bytes. Times are those of H, in µs: `TOUCH` is when a hold ended last, `EXPIRES`
-- when the key expires. `LEASE` is an upper bound of how far `EXPIRY` was ahead.

-- Returns what the string says at the time `now`: `lim`, `touch`, `expires`, the holds that last, their weight `used` and
-- their last end; nil for a string of another form. A hold lasts no longer than its lease from now, whatever the clock was
-- when it was granted: then `stale` is set, and the string is to be written again.
local function read_permits(text, now)
  local lim, touch, expires, at = string.match(text, '^p (%d+) (%d+) (%d+)()')
  if not lim then return nil end
  local p = { lim = tonumber(lim), touch = tonumber(touch), expires = tonumber(expires), used = 0, last = now, holds = {} }
  if p.touch > now then p.touch, p.stale = now, true end
  while at <= #text do
    local ticket, expiry, lease, middle, granted, token, weight, length, stop =
      string.match(text, '^ (%x+) (%d+) (%d+)() (%d+) (%d+) (%d+) (%d+)()', at)
    if not ticket or #ticket ~= 32 then return nil end
    stop = stop + length
    local hold = { ticket = ticket, expiry = tonumber(expiry), weight = tonumber(weight), granted = granted, token = token,
                   front = string.sub(text, at, middle - 1), rest = string.sub(text, middle, stop - 1),
                   label = string.sub(text, stop - length, stop - 1) }
    if hold.expiry > now + lease then
      hold.expiry, p.stale = now + lease, true
      hold.front = string.format(' %s %.0f %s', ticket, hold.expiry, lease)
    end
    if hold.expiry > now then
      p.holds[#p.holds + 1] = hold
      p.used, p.last = p.used + hold.weight, math.max(p.last, hold.expiry)
    else
      p.touch = math.max(p.touch, hold.expiry)
    end
    at = stop
  end
  if p.stale then p.expires = 0 end
  return p
end

-- Returns the string, and when its key expires, in ms.
local function permits_text(p)
  local parts = { string.format('p %.0f %.0f %.0f', p.lim, p.touch, p.expires) }
  for _, hold in ipairs(p.holds) do
    parts[#parts + 1] = hold.front
    parts[#parts + 1] = hold.rest
  end
  return table.concat(parts), string.format('%.0f', math.ceil(p.expires / 1000))
end

-- Gives a hold a new end.
local function set_end(hold, expiry, lease)
  hold.expiry = expiry
  hold.front = string.format(' %s %.0f %.0f', hold.ticket, expiry, lease)
end
