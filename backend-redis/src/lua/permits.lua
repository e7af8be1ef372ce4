-- Permits as one string: what `fast_permits` and, in `forms.lua`, all other steps know of it.
--
-- "p LIMIT TOUCH EXPIRES", and for each hold " TICKET EXPIRY LEASE GRANTED TOKEN WEIGHT LENGTH
-- LABEL": the label is what stands behind the `LENGTH`, of so many bytes. Times are those of H, in
-- µs: `TOUCH` is when a hold ended last, `EXPIRES` when the key expires. `LEASE` is an upper bound
-- of how far `EXPIRY` was ahead.

-- Gives a hold a new end.
local function set_end(hold, expiry, lease)
  hold.expiry = expiry
  hold.front = string.format(' %s %d %d', hold.ticket, expiry, lease)
end

-- Returns what the string says at the time `now`: `lim`, `touch`, `expires`, the holds that last,
-- their weight `used` and their last end; nil for a string of another form. A hold lasts no longer
-- than its lease from now, whatever the clock was when it was granted: then `stale` is set, and the
-- string is to be written again.
local function read_permits(text, now)
  local lim, touch, expires, at = string.match(text, '^p (%d+) (%d+) (%d+)()')
  if not lim then return nil end
  local p = { lim = tonumber(lim), touch = tonumber(touch), expires = tonumber(expires), used = 0, last = now, holds = {} }
  if p.touch > now then p.touch, p.stale = now, true end
  while at <= #text do
    local ticket, expiry, lease, middle, granted, token, weight, length, stop =
      string.match(text, '^ (%x+) (%d+) (%d+)() (%d+) (%d+) (%d+) (%d+)()', at)
    if not ticket or #ticket ~= 32 then return nil end
    local hold = { ticket = ticket, expiry = tonumber(expiry), weight = tonumber(weight), granted = granted, token = token,
                   text = text, at = at, middle = middle, label_at = stop, stop = stop + length }
    stop = hold.stop
    if hold.expiry > now + lease then
      set_end(hold, now + lease, lease)
      p.stale = true
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

-- Returns the string, and when its key expires, in ms. A hold that was read stands in it as it was;
-- `front` and `rest` are what is new of others.
local function permits_text(p)
  local text = string.format('p %d %d %d', p.lim, p.touch, p.expires)
  for _, hold in ipairs(p.holds) do
    local front, rest = hold.front, hold.rest
    if not front then
      front, rest = '', string.sub(hold.text, hold.at, hold.stop - 1)
    elseif not rest then
      rest = string.sub(hold.text, hold.middle, hold.stop - 1)
    end
    text = text .. front .. rest
  end
  return text, math.ceil(p.expires / 1000)
end
