-- bloom_clear: empties a filter. Its generation stays for a while, so that who knows it learns that nothing was lost.
--
-- All of its pages are due a second later: the server deletes them in its own time, whatever becomes of the caller.
--
-- ARGV     behind the first two: how long the record stays, in ms
-- Returns  {1, generation, ends}   {}  there is none   {0, pages} nothing done: the filter has so many pages
-- Complexity  O(pages of the filter).
-- Retry    finds it cleared and tells the same.

return run(0, function(o, at, list)
  load(o, 'a')
  if not o.generation then return {} end
  if o.kept then
    local pages = math.ceil(o.bits / PAGE)
    if #list < pages then return { 0, pages } end
    look(o, list)
    local time = floor(now / 1000)
    o.ends, o.set, o.terms, o.kept = time + tonumber(ARGV[at]), 0, '-', false
    save(o, {})
    for _, page in ipairs(o.pages) do
      if page.length > 0 then call('PEXPIREAT', page.key, int(time + 1000)) end
    end
  end
  return { 1, o.generation, o.ends }
end)
