-- bloom_survey: reads the record of a filter.
--
-- ARGV     behind the first two: generation and end that are known
-- Returns  {0, generation, ends, bits that are set, terms}   {1} no filter   {1, generation, ends}
--          a cleared one  {2} lost
-- Complexity  O(1).
-- Retry    asks again.

return run(0, function(o, at)
  load(o, 'a')
  if missing(o, ARGV[at], ARGV[at + 1]) then return { 2 } end
  if o.terms then return { 0, o.generation, o.ends, o.set, o.terms } end
  if o.generation then return { 1, o.generation, o.ends } end
  return { 1 }
end)
