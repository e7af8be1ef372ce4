-- A step for each entry of a batch: put behind `queue.lua`.

local KINDS = { 'hash', 'zset', 'zset', 'zset', 'string', 'string', 'zset', short = true }

-- Makes the entry whose keys begin behind `k`. Returns it and the number of its keys.
local function entry(k)
  local o = { h = KEYS[k + 1], e = KEYS[k + 2], q = KEYS[k + 3], live = KEYS[k + 4], grace = KEYS[k + 5],
              mark = KEYS[k + 6], asking = PROCESS, set = {}, lease = 0, stay = STATE }
  -- All keys of an entry have one prefix. Key 4 is that prefix and `live`; in H the kind follows
  -- the prefix.
  local kind = string.sub(o.h, #o.live - 3, #o.live - 3)
  if kind == 'm' then
    o.mutex, o.stay = true, math.min(STATE, MARGIN)
  elseif kind == 's' then
    o.semaphore = true
  elseif kind == 'w' then
    o.v = KEYS[k + 7]
  end
  return o, o.v and 7 or 6
end

-- Tells those who fit now, and those who never will.
local function wake(o)
  looks = math.max(looks, FEW)
  let_in(o, nil, nil, true)
  tell_large(o)
end

-- Runs the step for each entry, with `width` arguments each. Afterwards it wakes waiters, once for
-- each object. With `frees`, for a step that frees or keeps what is there, the step is not refused
-- for want of memory.
local function run(width, step, frees)
  local answers, waking = {}, {}
  local function one(o, at)
    local answer = step(o, at)
    if o.v then settle(o) end
    save(o)
    return answer
  end
  local k, at = 0, 2
  while k < #KEYS do
    local o, keys = entry(k)
    local ok, answer = pcall(one, o, at)
    if not ok and frees and string.find(words(answer), 'OOM ', 1, true) then
      -- That was the first write of the script. After a write that cannot need memory, the server
      -- lets any other pass.
      redis.pcall('ZREM', o.e, '')
      o = entry(k)
      ok, answer = pcall(one, o, at)
    end
    if not ok then
      local refusal
      answer, refusal = stopped(answer, k, KINDS, keys)
      if refusal then return refusal end
    elseif o.wake or o.tidy or waking[o.h] then
      o.wake = o.wake or waking[o.h] and waking[o.h].wake
      waking[o.h] = o
    end
    answers[#answers + 1] = answer
    k, at = k + keys, at + width
  end
  for _, o in pairs(waking) do
    -- A foreign value costs waiters a hint, or leaves a hash, and costs no entry its answer.
    local ok, cause = true, nil
    if o.n == 0 or not o.lim then
      ok, cause = pcall(compact, o)
    elseif o.wake then
      ok, cause = pcall(wake, o)
      save(o)
    end
    if not ok and not string.find(words(cause), 'WRONGTYPE', 1, true) then
      local _, refusal = stopped(cause, 0, KINDS, 0)
      return refusal
    end
  end
  send_hints()
  return answers
end

