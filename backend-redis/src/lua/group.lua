-- The generations of wait groups: put between `batch.lua` and each step's own file.
--
-- A generation opens with the first member after zero and ends with the last one, whatever ends it.
-- V holds the watchers of that end: "process:hint", by the time each was noted last. The end pushes
-- each hint into the mailbox of its process, and deletes V. A watcher is noted anew while it asks,
-- so that V expires when no watcher asks any more.
--
-- H fields: `gen` number of the open generation or of the last one; `ends` how the members of the
-- open one ended so far:
-- "finished abandoned expired"; `past` the outcomes of the last `KEPT` generations, oldest first,
-- each as `ends` and
-- a `;` behind it; `old` the sum of the outcomes before those. A generation of cancelled
-- acquisitions never had a member: for it the outcome before it is repeated, with `=` in front, and
-- is summed once.

local KEPT = 16
local WATCH, WATCH_MS = 1000000, 10000
local COLUMN = { finished = 1, abandoned = 2, expired = 3 }

-- Reads the counts in a text; zeros if there are none.
local function counts(text)
  local finished, abandoned, expired = string.match(text or '', '(%d+) (%d+) (%d+)')
  return { tonumber(finished) or 0, tonumber(abandoned) or 0, tonumber(expired) or 0 }
end

local function written(c)
  return string.format('%d %d %d', c[1], c[2], c[3])
end

local function sum(a, b)
  return { a[1] + b[1], a[2] + b[2], a[3] + b[3] }
end

-- Reads the fields that only groups have.
recall = function(o)
  local r = call('HMGET', o.h, 'gen', 'ends', 'past', 'old', 'epoch')
  o.gen = tonumber(r[1]) or 0
  o.ends = counts(r[2])
  o.past = r[3] or ''
  o.old = r[4]
  o.epoch = tonumber(r[5]) or 0
  o.open = o.used > 0
end

-- Returns the epoch of the record of a group as the step leaves it; nil for other objects.
local function epoch_of(o)
  if not o.v then return nil end
  return o.expires_at == 0 and now or o.epoch
end

-- Counts ended members, whose weights add up to `weight`.
count = function(o, ending, weight)
  local column = COLUMN[ending]
  o.ends[column] = o.ends[column] + weight
  o.counted = true
end

-- Notes that there are members.
local function opened(o)
  if o.open then return end
  o.open = true
  o.gen = o.gen + 1
  put(o, 'gen', int(o.gen))
end

-- Sends a hint to each watcher of the end. A foreign value under V costs the hints only.
local function tell(o)
  local watchers = redis.pcall('ZRANGE', o.v, 0, -1)
  if watchers.err or not watchers[1] then return end
  for _, watcher in ipairs(watchers) do
    local process, hint = string.match(watcher, '^(%x+):(%x+)$')
    if process then push(o, process, hint) end
  end
  call('DEL', o.v)
end

-- Writes what was counted; at zero, ends the generation.
settle = function(o)
  if o.open and o.used == 0 then
    o.open = false
    local outcome = written(o.ends)
    if outcome == '0 0 0' then outcome = '=' .. (string.match(o.past, '(%d+ %d+ %d+);$') or outcome) end
    o.past = o.past .. outcome .. ';'
    local _, kept = string.gsub(o.past, ';', '')
    if kept > KEPT then
      local first, rest = string.match(o.past, '^([^;]*);(.*)$')
      o.past = rest
      if string.byte(first) ~= 61 then
        o.old = written(sum(counts(o.old), counts(first)))
        put(o, 'old', o.old)
      end
    end
    o.ends, o.counted = { 0, 0, 0 }, true
    put(o, 'past', o.past)
    tell(o)
  end
  if o.counted then
    o.counted = false
    put(o, 'ends', written(o.ends))
  end
end

-- Returns how the ended generation `asked` ended. For a forgotten one it is the sum of all
-- forgotten ones and the oldest known.
local function outcome_of(o, asked)
  local outcomes = {}
  for outcome in string.gmatch(o.past, '[^;]+') do outcomes[#outcomes + 1] = outcome end
  local last = o.open and o.gen - 1 or o.gen
  local at = #outcomes - (last - asked)
  if at >= 1 then return counts(outcomes[at]) end
  return sum(counts(o.old), counts(outcomes[1]))
end
