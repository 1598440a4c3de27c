-- Deletes some of the oldest commits, and departures whose events are all gone.
-- ARGV: written before, below which number, how many at most.
local written_before, below, most = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local gone = {}
for _, number in ipairs(redis.call('ZRANGE', root .. 'commits', 0, most - 1)) do
  local key = root .. 'commit/' .. number
  if tonumber(number) >= below then break end
  local at = tonumber(string.match(redis.call('GETRANGE', key, 0, 127), '^[^/]*/([^/]*)/'))
  if at >= written_before then break end
  gone[#gone + 1] = number
end
for _, number in ipairs(gone) do redis.call('DEL', root .. 'commit/' .. number) end
call_many('ZREM', root .. 'commits', gone)
local is_more = #gone == tonumber(most)
local first = tonumber(redis.call('HGET', root .. 'head', 'first_commit') or 1)
if #gone > 0 then
  -- No higher: who has read the last one that goes misses nothing.
  first = math.max(first, tonumber(gone[#gone]) + 1)
  redis.call('HSET', root .. 'head', 'first_commit', digits(first))
end
local departed = redis.call(
  'ZRANGEBYSCORE', root .. 'departed', '-inf', '(' .. digits(first), 'LIMIT', 0, most)
for _, member in ipairs(departed) do
  local name, life = string.match(member, '^(.*)/(%d+)$')
  redis.call('HDEL', root .. 'departure/' .. name, life)
end
call_many('ZREM', root .. 'departed', departed)
return {#gone, (is_more or #departed == tonumber(most)) and 1 or 0}
