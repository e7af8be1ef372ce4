-- limit_decide: decides calls in order, all at one moment.
--
-- Equal takes in a row are one group, in the request and in the answer, and cost no more than one
-- take. The content before the first of them says which were admitted, and what the answer to each
-- is.
--
-- ARGV     for each limiter: lane, number of the request, number of groups; then for each group
--          check (`r` refuse, `a` adopt or follow, `p` replace), amount, period, burst, cost,
--          ticket or empty for takes, the maximum wait or how many takes
-- Returns  {1, answer}   {1, answer, elapsed} from memory: the time since the decision, 0 if the
--          clock has gone back since
--          {0} if a later request of the lane was answered before.
--          The answer, also kept as `a<lane>`: "number time behind", where `behind` is by how much
--          the clock has gone back, then, each after a `;`, for each group
--          "t COUNT ADMITTED COST TOKENS FRACTION SETTLED"  the content before the first; 1 if no
--              reservation is ahead
--          "r READY_AT WAIT" reserved   "n" no place within the maximum wait   "c" cancelled before
--          "m COUNT" the quotas differ   "l COUNT" larger than the burst
--          and "q AMOUNT PERIOD BURST" before the first group and where the quota was replaced.
-- Complexity  O(groups); for reservations O(log Z) each; O(1) for a new lane, and for what is due
--             to be forgotten.
-- Retry    the lane and number name the request: for 60 s a retry gets the answer of the first
--          time. The waits in it count from the first decision: the client subtracts `elapsed`.

local WIDTH = 7

-- Whether a retry may still need an answer.
local function is_due(answer)
  local decided = tonumber(string.match(answer, '^%d+ (%d+)'))
  return decided and decided >= now - ANSWERS
end

local function take(o, cost, count)
  local admitted, t, f = 0, o.t, o.f
  if t >= 0 then admitted = cost == 0 and count or min(count, floor(t / cost)) end
  local taken = admitted * cost
  if taken > 0 then
    o.t = t - taken
    if ahead(o) then charge(o, taken) end
  end
  return string.format('t %d %d %d %d %d %d', count, admitted, cost, t, f, ahead(o) and 0 or 1)
end

-- Returns the content after a debit of `cost`, and the time from which it is not negative and no
-- reservation waits.
local function place(o, cost)
  local t = debit(o.t, cost)
  if not t then return nil end
  local wait = wait_for(o.q, t, o.f, 0)
  local own = o.last + wait
  if own > MAX then return nil end
  if wait == 0 or own < o.latest then return t, o.f, max(own, o.latest) end
  local f
  t, f = trimmed(o.q, t, o.f, wait, o.q.burst - cost)
  return t, f, own
end

local function reserved(o, ready_at)
  local wait = ready_at - o.last
  if wait > 0 then wait = min(wait + o.last - now, MAX) end
  return wait, string.format('r %d %d', ready_at, wait)
end

local function reserve(o, ticket, cost, longest)
  local known = o.entries[ticket]
  if known and not known[2] then return 'c' end
  if known then
    local _, answer = reserved(o, known[1])
    return answer
  end
  local t, f, ready_at = place(o, cost)
  if not t then return 'n' end
  local wait, answer = reserved(o, ready_at)
  if wait > longest then return 'n' end
  if cost > 0 then
    if ready_at > o.last then
      mark(o, ticket, ready_at)
      charge(o, cost)
      put(o, ticket, { ready_at, cost, o.taken })
      o.latest = max(o.latest, ready_at)
    end
    o.t, o.f = t, f
  end
  return answer
end

local function quota(at)
  return { amount = tonumber(ARGV[at + 1]), period = tonumber(ARGV[at + 2]), burst = tonumber(ARGV[at + 3]) }
end

local function decide(o, at)
  local told
  local answers = {}
  for group = at, at + (o.groups - 1) * WIDTH, WIDTH do
    local brought, check = quota(group), ARGV[group]
    local absent = not o.q
    if absent then fill(o, brought) end
    local differs = not same(o.q, brought)
    if differs and check == 'p' then convert(o, brought) end
    if o.q ~= told then
      told = o.q
      answers[#answers + 1] = string.format('q %d %d %d', o.q.amount, o.q.period, o.q.burst)
    end
    local cost, ticket, count = tonumber(ARGV[group + 4]), ARGV[group + 5], tonumber(ARGV[group + 6])
    local answer
    if differs and check == 'r' then
      answer = string.format('m %d', ticket == '' and count or 1)
    elseif cost > o.q.burst then
      answer = string.format('l %d', ticket == '' and count or 1)
    elseif ticket == '' then
      answer = take(o, cost, count)
    else
      answer = reserve(o, ticket, cost, count)
    end
    answers[#answers + 1] = answer
    -- What takes nothing makes no bucket.
    if absent and (cost == 0 or cost > o.q.burst or answer == 'c') then o.q, told = nil, nil end
  end
  return table.concat(answers, ';')
end

return run(function(at) return 3 + ARGV[at + 2] * WIDTH end, function(o, at)
  local lane, number = 'a' .. ARGV[at], tonumber(ARGV[at + 1])
  load(o, lane)
  if o.memory then
    local before, decided = string.match(o.memory, '^(%d+) (%d+)')
    before = tonumber(before)
    if before >= number then
      if o.noted then save(o) end
      return before == number and { 1, o.memory, max(now - decided, 0) } or { 0 }
    end
  end
  -- Before anything is changed: the right to look may be missing.
  if not o.memory and o.q then o.cursor = sweep_answers(o.h, o.cursor, is_due) end
  o.groups = tonumber(ARGV[at + 2])
  local tickets = {}
  for group = at + 3, at + 2 + o.groups * WIDTH, WIDTH do
    if ARGV[group + 5] ~= '' then tickets[#tickets + 1] = ARGV[group + 5] end
  end
  if tickets[1] then look(o, tickets) end
  local answer = string.format('%d %d %d;', number, now, o.last - now) .. decide(o, at + 3)
  if not o.q and not o.noted then return { 1, answer } end
  save(o, { lane, answer })
  return { 1, answer }
end)
