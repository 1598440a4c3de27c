-- The first commits after a number that are readable. ARGV: the number, how many.
local found = redis.call(
  'ZRANGEBYSCORE', root .. 'commits', '(' .. ARGV[1], head()[5], 'LIMIT', 0, ARGV[2])
local keys = {}
for place, number in ipairs(found) do keys[place] = root .. 'commit/' .. number end
local lengths, bytes = joined(values_of(keys))
return {table.concat(found, ','), lengths, bytes}
