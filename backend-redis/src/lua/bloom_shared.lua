-- Shared by the steps of Bloom filters: put in front of each step's own file.
--
-- KEYS     for each filter, all of one hash tag `{namespace/stripe}`:
--          1 H `b:NAME`   hash: what the filter is, which pages it has, and what was answered last
--          2.. `bPAGE:NAME`  strings: the pages that the step is about. A page has PAGE bits, the last one as many as are
--          left; bit 0 is the highest of the first byte.
-- ARGV     for each filter: how many arguments it has, the numbers of its pages, then what the step says. Numbers in a
--          row are of 3 bytes each; a record that the caller knows is its generation and end, or '' and 0.
-- Returns  an array with an array for each filter. One of whose keys holds a foreign type is answered {-1, key, type};
--          nothing of it was changed.
--
-- H fields: `f` the filter: "generation ends set lanes sweep terms", where `ends` is when all of it expires, in ms, 0 for
-- never, `set` how many bits are set, `lanes` how many fields `a` there are and `sweep` how many there may be before the
-- old ones are taken out; terms are "bits hashes capacity rate ttl", the rate as hex of a double's bits, the time to live
-- in ms, 0 for none, or "-" after a clear; `p<page>` for each page that was begun; `a<lane>` the last answer to a lane, as
-- the step `bloom_probe` says. Answers outlive the filter: H expires 60 s after it, and a clear leaves them there.
--
-- A page belongs to the filter if H says so. Whatever else is under its key was left by a filter that was cleared or
-- lost, and is thrown away before the page is begun. A page that belongs to the filter and is not there was lost.
-- Times are microseconds of this server's clock, read once.

local call, floor, min, max = redis.call, math.floor, math.min, math.max
local PAGE, CHUNK = 8388608, 1000
local ANSWERS = 60000000

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- The numbers in a row.
local function numbers(packed)
  local list, at = {}, 1
  while at <= #packed do list[#list + 1], at = struct.unpack('>I3', packed, at) end
  return list
end

-- The terms in force from here on, without any page.
local function agree(o, terms)
  o.terms = terms
  o.bits = tonumber(string.match(terms, '^%d+'))
end

-- Reads the record, and what was answered to a lane. Past its end it is none, but for the answers.
local function load(o, lane)
  local r = call('HMGET', o.h, 'f', lane)
  local generation, ends, set, lanes, sweep, terms =
    string.match(r[1] or '', '^(%x+) (%d+) (%d+) (%d+) (%d+) (.+)$')
  o.any, o.pages = generation, {}
  o.set, o.lanes, o.sweep = 0, tonumber(lanes) or 0, tonumber(sweep) or 8
  if not generation then return end
  o.written, o.lane, o.memory, ends = r[1], lane, r[2], tonumber(ends)
  if ends > 0 and ends * 1000 <= now then return end
  o.generation, o.ends = generation, ends
  if terms == '-' then return end
  o.kept, o.set = true, tonumber(set)
  agree(o, terms)
end

-- Whether the record that a caller knows is gone, or another's, before its end.
local function missing(o, generation, ends)
  if generation == '' or generation == o.generation then return false end
  ends = tonumber(ends)
  return ends == 0 or ends * 1000 > now
end

-- Makes a record, or brings a cleared one new terms. Written by `found`.
local function open(o, fresh, terms)
  o.generation = o.generation or fresh
  agree(o, terms)
  local ttl = tonumber(string.match(terms, '%d+$'))
  o.ends = ttl > 0 and floor(now / 1000) + ttl or 0
end

-- The bytes of a page.
local function size(o, number)
  return min(PAGE, o.bits - number * PAGE) / 8
end

-- Looks at pages: what H says and what is there. First of all, so that a foreign type stops the step here.
local function look(o, list)
  for first = 1, #list, CHUNK do
    local last, fields = min(first + CHUNK - 1, #list), {}
    for i = first, last do fields[#fields + 1] = 'p' .. list[i] end
    local begun = o.kept and call('HMGET', o.h, unpack(fields)) or {}
    for i = first, last do
      local page = { key = KEYS[o.k + 1 + i], number = list[i], begun = begun[i - first + 1] }
      page.length = call('STRLEN', page.key)
      page.gone = page.begun and page.length ~= size(o, page.number)
      o.pages[i] = page
    end
  end
end

local function expire(o, key)
  if o.ends > 0 then call('PEXPIREAT', key, int(o.ends)) end
end

-- Whether a retry may still ask for an answer.
local function is_due(answer)
  local answered = tonumber(string.match(answer, '^%d+ (%d+)'))
  return answered and answered >= now - ANSWERS
end

-- Takes out the record and all that it says of pages; the answers that are due are written with the next one. That of the
-- lane at hand gives way to a new one.
local function renew(o, fields)
  local all = call('HGETALL', o.h)
  -- Who may not write it must not delete it. Where memory is short, a script that has taken something out, if only a field
  -- that is not there, may go on and write.
  call('HDEL', o.h, 'a')
  call('HSET', o.h, 'f', o.written)
  call('DEL', o.h)
  o.lanes, o.memory = 0, false
  for i = 1, #all, 2 do
    if string.byte(all[i]) == 97 and all[i] ~= o.lane and is_due(all[i + 1]) then
      fields[#fields + 1], fields[#fields + 2] = all[i], all[i + 1]
      o.lanes = o.lanes + 1
    end
  end
  o.sweep = 2 * o.lanes + 8
end

-- Writes the record. What is left of one that ended or was cleared goes first.
local function save(o, fields)
  if o.any and not o.kept then renew(o, fields) end
  fields[#fields + 1] = 'f'
  fields[#fields + 1] = string.format('%s %.0f %.0f %d %d %s', o.generation, o.ends, o.set, o.lanes, o.sweep, o.terms)
  for first = 1, #fields, CHUNK do call('HSET', o.h, unpack(fields, first, min(first + CHUNK - 1, #fields))) end
  if not o.kept and o.ends > 0 then call('PEXPIREAT', o.h, int(o.ends + ANSWERS / 1000)) end
  o.kept = true
end

-- Begins those of the pages that the filter does not have yet, with zeros, and then says so in the record: a page that the
-- server refuses to make is not missed. Returns those that it began.
local function found(o, pages)
  local fields, fresh = {}, {}
  for _, page in ipairs(pages) do
    if not page.begun then
      fields[#fields + 1], fields[#fields + 2] = 'p' .. page.number, '1'
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

-- Runs the step for each filter, with `further` keys behind those of its pages.
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

