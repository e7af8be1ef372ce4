-- force: frees holds of any holder, and wakes the waiters that then fit.
--
-- A freed ticket leaves a tombstone for the rest of its lease: a late copy of its acquire must not
-- give the holder another hold, with another token, which the renewals of the holder would keep.
--
-- ARGV     for each entry: the ticket, or empty for all; for all, what the call before returned:
--          `next` (`0` at first) and `before` (empty at first)
-- Returns  {count}: how many holds were freed; for all {count, next, before} if there may be more.
--          Holds granted after the first call are not freed. `before` is the time of that call and
--          the server process, whose positions mean nothing to another.
-- Complexity  O(log E) for one; a part of all holds at a time, O(part · log E).
-- Retry    finds nothing left to free.

local PART = 500

return run(3, function(o, at)
  local ticket = ARGV[at + 1]
  if not load(o, ticket) then return { -2 } end
  if ticket ~= '' then
    if not o.hold then return { 0 } end
    local left = tonumber(string.match(o.hold, '^%d+')) - now
    free(o, 'abandoned')
    leave_tombstone(o, ticket, left)
    return { 1 }
  end
  local before, process = string.match(ARGV[at + 3], '^(%d+) (%x+)$')
  before = tonumber(before) or now
  local from = process and process ~= process_id() and '0' or ARGV[at + 2]
  local page = call('HSCAN', o.h, from, 'MATCH', 'h*', 'COUNT', PART)
  local here = page[1] ~= '0' and process_id()
  local freed, weight = 0, 0
  for i = 1, #page[2], 2 do
    local member = string.sub(page[2][i], 2)
    local expiry, granted, weighs = string.match(page[2][i + 1], '^(%d+) (%d+) (%d+)')
    -- A grant from a time that is ahead was made before the clock went back.
    local is_older = granted and (tonumber(granted) <= before or tonumber(granted) > now)
    if #member == 32 and is_older and call('HDEL', o.h, page[2][i]) == 1 then
      call('ZREM', o.e, member)
      freed, weight = freed + 1, weight + weighs
      leave_tombstone(o, member, expiry - now)
    end
  end
  if freed > 0 then
    if o.v then count(o, 'abandoned', weight) end
    o.used, o.touch, o.wake = o.used - weight, now, true
    put(o, 'used', o.used)
    put(o, 'touch', NOW)
  end
  if not here then return { freed } end
  return { freed, page[1], int(before) .. ' ' .. here }
end, true)
