-- bloom_clear: empties a filter. Its generation stays for a while, so that a process that knows it
-- does not take the clear for a loss.
--
-- All of its pages expire a second later: the server deletes them in its own time, also if the
-- caller is gone.
--
-- ARGV     behind the first two: how long the record stays, in ms
-- Returns  {1, generation, ends}   {}  there is none   {0, pages} nothing done: the number of pages
--          of the filter
-- Complexity  O(pages of the filter).
-- Retry    finds the filter cleared and gives the same answer.

return run(0, function(o, at, list)
  load(o, 'a')
  if not o.generation then return {} end
  if o.kept then
    local pages = math.ceil(o.bits / PAGE)
    if #list < pages then return { 0, pages } end
    look(o, list)
    local time = floor(now / 1000)
    o.ends, o.set, o.life, o.terms, o.kept = time + tonumber(ARGV[at]), 0, o.life + 1, '-', false
    -- Where memory is short, a script that has removed something, if only a field that does not
    -- exist, may go on and write.
    call('HDEL', o.h, 'a')
    save(o, {})
    for _, page in ipairs(o.pages) do
      if page.length > 0 then call('PEXPIREAT', page.key, int(time + 1000)) end
    end
  end
  return { 1, o.generation, o.ends }
end)
