-- Shared by the steps of Bloom filters: put in front of each step's own file.
--
-- KEYS     for each filter, all of one hash tag `{namespace/stripe}`:
--          1 H `b:NAME`   hash: the filter, its pages, and the last answers
--          2.. `bPAGE:NAME`  strings: the pages that the step is about. A page has PAGE bits, the
--          last one as many as are left; bit 0 is the highest of the first byte.
-- ARGV     for each filter: how many arguments it has, the numbers of its pages, then the arguments
--          of the step. Packed numbers have 3 bytes each. A record that the caller knows is its
--          generation and end, or '' and 0.
-- Returns  an array with an array for each filter. The answer for a filter one of whose keys holds
--          a foreign type is {-1, key, type}; nothing of that filter was changed.
--
-- H fields: `f` the filter: "generation ends set cursor life terms", where `ends` is when all of
-- it expires, in ms, 0 for never, `set` how many bits are set, `cursor` how far a sweep of the
-- fields `a` has come, and `life` how often it has ended or was cleared; terms are "bits hashes
-- capacity rate ttl", the rate as hex of the bits of a double, the time to live in ms, 0 for none,
-- or "-" after a clear; `p<page>` the life in which the page was begun; `a<lane>` the last answer
-- to a lane, as in the step `bloom_probe`. Answers outlive the filter: H expires 60 s after it, and
-- a clear leaves them there.
--
-- A page belongs to the filter if H has this life in its field. Any other value under its key was
-- left by a filter that ended, was cleared or lost, and is deleted before the page is begun. A page
-- that belongs to the filter and is not there was lost. Times are microseconds of this server's
-- clock, read once.

local call, floor, min, max = redis.call, math.floor, math.min, math.max
local PAGE, CHUNK = 8388608, 1000
local ANSWERS = 60000000
-- As an end of a record that had one before: in ms, so far that it does not come.
local NEVER = '9007199254740991'

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Unpacks numbers.
local function numbers(packed)
  local list, at = {}, 1
  while at <= #packed do list[#list + 1], at = struct.unpack('>I3', packed, at) end
  return list
end

-- Sets the terms in force from here on.
local function agree(o, terms)
  o.terms = terms
  o.bits = tonumber(string.match(terms, '^%d+'))
end

-- Reads the record, and the last answer to a lane. Past the end of the filter only the answers
-- count.
local function load(o, lane)
  local r = call('HMGET', o.h, 'f', lane)
  local generation, ends, set, cursor, life, terms =
    string.match(r[1] or '', '^(%x+) (%d+) (%d+) (%d+) (%d+) (.+)$')
  o.any, o.pages = generation, {}
  o.set, o.cursor, o.life = 0, cursor or '0', tonumber(life or 0)
  if not generation then return end
  o.memory, ends = r[2], tonumber(ends)
  if ends > 0 and ends * 1000 <= now then
    o.life = o.life + 1
    return
  end
  o.generation, o.ends = generation, ends
  if terms == '-' then return end
  o.kept, o.set = true, tonumber(set)
  agree(o, terms)
end

-- Whether the record that a caller knows is gone, or replaced by another, before its end.
local function missing(o, generation, ends)
  if generation == '' or generation == o.generation then return false end
  ends = tonumber(ends)
  return ends == 0 or ends * 1000 > now
end

-- Makes a record, or gives new terms to a cleared one. `found` writes it.
local function open(o, fresh, terms)
  o.generation = o.generation or fresh
  agree(o, terms)
  local ttl = tonumber(string.match(terms, '%d+$'))
  -- Rounded up: it does not end early.
  o.ends = ttl > 0 and math.ceil(now / 1000) + ttl or 0
end

-- Returns the length of a page in bytes.
local function size(o, number)
  return min(PAGE, o.bits - number * PAGE) / 8
end

-- Reads the pages, their fields in H and their keys. It runs first of all, so that a foreign type
-- stops the step here.
local function look(o, list)
  for first = 1, #list, CHUNK do
    local last, fields = min(first + CHUNK - 1, #list), {}
    for i = first, last do fields[#fields + 1] = 'p' .. list[i] end
    local begun = o.kept and call('HMGET', o.h, unpack(fields)) or {}
    for i = first, last do
      local page = { key = KEYS[o.k + 1 + i], number = list[i], begun = begun[i - first + 1] == int(o.life) }
      page.length = call('STRLEN', page.key)
      page.gone = page.begun and page.length ~= size(o, page.number)
      o.pages[i] = page
    end
  end
end

local function expire(o, key)
  if o.ends > 0 then call('PEXPIREAT', key, int(o.ends)) end
end

-- Whether a retry may still need an answer.
local function is_due(answer)
  local answered = tonumber(string.match(answer, '^%d+ (%d+)'))
  return answered and answered >= now - ANSWERS
end

-- Writes the record.
local function save(o, fields)
  fields[#fields + 1] = 'f'
  fields[#fields + 1] =
    string.format('%s %d %d %s %d %s', o.generation, o.ends, o.set, o.cursor, o.life, o.terms)
  for first = 1, #fields, CHUNK do call('HSET', o.h, unpack(fields, first, min(first + CHUNK - 1, #fields))) end
  if not o.kept and (o.any or o.ends > 0) then
    call('PEXPIREAT', o.h, o.ends > 0 and int(o.ends + ANSWERS / 1000) or NEVER)
  end
  o.kept = true
end

-- Begins the pages that the filter does not have yet, with zeros, and notes them in the record
-- after that: a page that the server refuses to make does not count as lost. Returns the pages that
-- it began.
local function found(o, pages)
  local fields, fresh = {}, {}
  for _, page in ipairs(pages) do
    if not page.begun then
      fields[#fields + 1], fields[#fields + 2] = 'p' .. page.number, int(o.life)
      fresh[#fresh + 1] = page
      page.begun = true
    end
  end
  if o.kept and not fresh[1] then return fresh end
  for _, page in ipairs(fresh) do
    if page.length > 0 then call('DEL', page.key) end
    call('BITFIELD', page.key, 'SET', 'u1', 8 * size(o, page.number) - 1, '0')
    expire(o, page.key)
  end
  save(o, fields)
  return fresh
end

-- Runs the step for each filter, which has `further` keys behind those of its pages.
local function run(further, step)
  local answers, at, k = {}, 1, 0
  while k < #KEYS do
    local list = numbers(ARGV[at + 1])
    local o = { h = KEYS[k + 1], k = k }
    local ok, answer = pcall(step, o, at + 2, list)
    if not ok then
      local kinds, refusal = { 'hash' }, nil
      for i = 1, #list + further do kinds[i + 1] = 'string' end
      answer, refusal = stopped(answer, k, kinds, 1 + #list + further)
      if refusal then return refusal end
    end
    answers[#answers + 1] = answer
    at, k = at + tonumber(ARGV[at]), k + 1 + #list + further
  end
  return answers
end

