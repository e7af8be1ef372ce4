-- bloom_probe: inserts and looks items up, in order.
--
-- Calls in a row of the same kind, with the same known record and terms, are one group. The bits of
-- a group are read and set page by page. Within a page they stand in the order of their items, so
-- that of two equal items the second finds every bit set.
--
-- ARGV     3 lane   4 number of the request   5 maximum number of pages it may create   6 number of
--          groups
--          then for each group: `i` insert or `c` contains, known generation, known end, a fresh
--          generation, terms, number of items of each call, number of parts
--          then for each part: index of its page in KEYS, then for each bit two numbers of 3 bytes:
--          its offset in the page, and the index of its item, from 0
-- Returns  {1, answer}   {0} a later request of the lane was answered before   {2} nothing done:
--          too many pages to begin
--          The answer, also kept as `a<lane>`: "number time", then, each after a `;`, for each call
--          "t BITS"  a 1 for each item that is new or contained    "e" no filter
--          "E" a cleared one
--          "m TERMS" the terms in force, which differ              "l" lost
--          and "g GENERATION ENDS" before a `t` or `E` if the record is another than before.
-- Complexity  O(bits + pages); O(1) for a new lane.
-- Retry    the lane and number name the request: for 60 s a retry gets the answer of the first
--          time. The answer to a request that sets no bit is not kept, and a retry of it runs
--          again.

-- Maximum number of bits in one call of a command. More of them are not faster.
local BITS = 250
-- The arguments of that call, made as far as they are needed: four for each bit to set, three for
-- each to get.
local SETS, GETS = { verb = 'SET', value = '1', width = 4 }, { verb = 'GET', width = 3 }

local function set(key, bits)
  return call('BITFIELD', key, unpack(SETS, 1, 4 * bits))
end

local function get(key, bits)
  return call('BITFIELD_RO', key, unpack(GETS, 1, 3 * bits))
end

-- Marks the items one of whose bits is not set. Returns how many bits of the page were not set.
local function visit(ask, words, page, data, marked)
  local at, items, unset = 1, {}, 0
  while at <= #data do
    local n = 0
    while n < BITS and at <= #data do
      local w = words.width * n
      if not words[w + 1] then words[w + 1], words[w + 2], words[w + 4] = words.verb, 'u1', words.value end
      words[w + 3], items[n + 1], at = struct.unpack('>I3I3', data, at)
      n = n + 1
    end
    for i, bit in ipairs(ask(page.key, n)) do
      if bit == 0 then
        marked[items[i]] = true
        unset = unset + 1
      end
    end
  end
  return unset
end

local function insert(o, parts, marked)
  local pages = {}
  for i, part in ipairs(parts) do pages[i] = part.page end
  local fresh = found(o, pages)
  for _, part in ipairs(parts) do
    o.set = o.set + visit(set, SETS, part.page, part.data, marked)
  end
  -- Once more: if the end of the filter passed meanwhile, the server removed the page, and setting
  -- a bit made it anew.
  for _, page in ipairs(fresh) do expire(o, page.key) end
  o.noted = true
end

local function contains(parts, marked)
  for _, part in ipairs(parts) do
    if part.page.begun then
      visit(get, GETS, part.page, part.data, marked)
    else
      for at = 4, #part.data, 6 do marked[struct.unpack('>I3', part.data, at)] = true end
    end
  end
end

-- Returns the answer to every call of the group, if it needs no look at the bits.
local function refused(o, group)
  if missing(o, group.generation, group.ends) then return 'l' end
  if not o.terms then
    if group.inserts then return nil end
    return o.generation and 'E' or 'e'
  end
  if o.terms ~= group.terms then return 'm ' .. o.terms end
  for _, part in ipairs(group.parts) do
    if part.page.gone then return 'l' end
  end
end

-- Adds which record the answers are about, unless that was added before.
local function name(o, answers)
  local record = 'g ' .. o.generation .. ' ' .. int(o.ends)
  if record ~= o.told then answers[#answers + 1] = record end
  o.told = record
end

local function answer(o, group, answers)
  local refusal = refused(o, group)
  if refusal then
    if refusal == 'E' then name(o, answers) end
    for _ = 1, #group.counts do answers[#answers + 1] = refusal end
    return
  end
  local marked, item = {}, 0
  if group.inserts then
    if not o.terms then open(o, group.fresh, group.terms) end
    insert(o, group.parts, marked)
  else
    contains(group.parts, marked)
  end
  name(o, answers)
  for _, count in ipairs(group.counts) do
    local bits = {}
    for i = 1, count do
      bits[i] = (marked[item] or false) == group.inserts and '1' or '0'
      item = item + 1
    end
    answers[#answers + 1] = 't ' .. table.concat(bits)
  end
end

-- Reads the groups whose arguments begin at `at`. Returns them, and how many of the pages they
-- insert into are not begun.
local function groups(o, at, count)
  local all, new, seen = {}, 0, {}
  for i = 1, count do
    local group = { inserts = ARGV[at] == 'i', generation = ARGV[at + 1], ends = ARGV[at + 2], fresh = ARGV[at + 3],
                    terms = ARGV[at + 4], counts = numbers(ARGV[at + 5]), parts = {} }
    local last = at + 6 + 2 * tonumber(ARGV[at + 6])
    for part = at + 7, last, 2 do
      local page = o.pages[tonumber(ARGV[part])]
      group.parts[#group.parts + 1] = { page = page, data = ARGV[part + 1] }
      if group.inserts and not page.begun and not seen[page] then
        seen[page] = true
        new = new + 1
      end
    end
    all[i], at = group, last + 1
  end
  return all, new
end

return run(0, function(o, at, list)
  local lane, number = 'a' .. ARGV[at], tonumber(ARGV[at + 1])
  load(o, lane)
  if o.memory then
    local before = tonumber(string.match(o.memory, '^%d+'))
    if before >= number then return before == number and { 1, o.memory } or { 0 } end
  end
  look(o, list)
  local all, new = groups(o, at + 4, tonumber(ARGV[at + 3]))
  if new > tonumber(ARGV[at + 2]) then return { 2 } end
  local inserts = false
  for _, group in ipairs(all) do inserts = inserts or group.inserts end
  -- Before anything is changed: the right to look may be missing.
  if inserts and not o.memory and o.any then o.cursor = sweep_answers(o.h, o.cursor, is_due) end
  local answers = { string.format('%d %d', number, now) }
  for _, group in ipairs(all) do answer(o, group, answers) end
  local text = table.concat(answers, ';')
  if o.noted then
    save(o, { lane, text })
  end
  return { 1, text }
end)
