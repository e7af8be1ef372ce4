-- Shared by the steps of all kinds: put in front of what the steps of one kind share.

-- Returns an integer as text. `%d` takes half the time of `%.0f`, and is exact on a server of 64
-- bits.
local function int(number)
  return string.format('%d', number)
end

local function words(cause)
  return type(cause) == 'table' and cause.err or tostring(cause)
end

-- Makes the answer of a step that failed for `cause`. If one of the `count` keys behind `k` is not
-- of its type in `kinds`, that is the answer to the entry; with `kinds.short`, the first key may be
-- a string of ours, and is named last. Otherwise the second result is an error in place of the
-- whole batch: the cause with its code in front, whichever way this version of the server hands it
-- to `pcall`. Such refusals come at the first write of a script, so that no earlier entry has
-- changed anything either.
local function stopped(cause, k, kinds, count)
  local text = words(cause)
  local first
  -- At other refusals a mutex may be a string, too.
  for j = 1, string.find(text, 'WRONGTYPE', 1, true) and count or 0 do
    local kind = redis.call('TYPE', KEYS[k + j])['ok']
    if kind ~= 'none' and kind ~= kinds[j] then
      local foreign = { -1, KEYS[k + j], kind }
      if j > 1 or not (kinds.short and kind == 'string') then return foreign end
      first = foreign
    end
  end
  if first then return first end
  text = string.gsub(text, '^@user_script: ?%d+: ', '')
  text = string.gsub(text, '^%-', '')
  return nil, redis.error_reply(string.find(text, '^%u+ ') and text or 'ERR ' .. text)
end


-- Calls `visit` for each field of a hash and its value, maybe more than once. O(fields).
local function each_field(h, visit)
  local cursor = '0'
  repeat
    local page = redis.call('HSCAN', h, cursor, 'COUNT', 500)
    cursor = page[1]
    for i = 1, #page[2], 2 do visit(page[2][i], page[2][i + 1]) end
  until cursor == '0'
end

-- Removes answers that no retry asks for any more from a part of a record, which begins at
-- `cursor`. Returns where the next part begins: one part for each new answer keeps them few. O(1),
-- or O(fields) of a small record.
local function sweep_answers(h, cursor, is_due)
  local page, old = redis.call('HSCAN', h, cursor, 'MATCH', 'a*', 'COUNT', 32), {}
  for i = 1, #page[2], 2 do
    if not is_due(page[2][i + 1]) then old[#old + 1] = page[2][i] end
  end
  if old[1] then redis.call('HDEL', h, unpack(old)) end
  return page[1]
end
