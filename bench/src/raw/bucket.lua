-- The usual limiter on Redis: a token bucket in one script, called once for each decision. It has
-- the exact
-- arithmetic of this library (whole tokens and a fraction in units of 1 / period), and the same
-- facts in the answer; no reservations, no stored answers, no expiry.
--
-- KEYS     1 hash: t tokens, f fraction, l last time
-- ARGV     amount, period in µs, burst, cost
-- Returns  {allowed, remaining, retry_after, reset_after}

local amount, period, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost = tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local r = redis.call('HMGET', KEYS[1], 't', 'f', 'l')
local t, f, last = tonumber(r[1]) or burst, tonumber(r[2]) or 0, tonumber(r[3]) or now

if now > last then
  local elapsed = now - last
  local periods, rest = math.floor(elapsed / period), elapsed % period
  local parts = rest * amount + f
  local gain = math.floor(parts / period)
  f = parts % period
  if periods > math.floor((burst - t) / amount) or t + periods * amount + gain >= burst then
    t, f = burst, 0
  else
    t = t + periods * amount + gain
  end
  last = now
end

local function wait_for(target)
  local missing = target - t
  if missing <= 0 then return 0 end
  local periods, rest = math.floor(missing / amount), missing % amount
  if rest == 0 then periods, rest = periods - 1, amount end
  return periods * period + math.ceil((rest * period - f) / amount)
end

local allowed = t >= cost
if allowed then t = t - cost end
redis.call('HSET', KEYS[1], 't', string.format('%.0f', t), 'f', string.format('%.0f', f),
           'l', string.format('%.0f', last))
return { allowed and 1 or 0, t, allowed and -1 or wait_for(cost), wait_for(burst) }
