-- What one tenant has and what waits, as of one moment. ARGV: tenant, time.
local waiting = {}
for _, lane in ipairs(lanes_of({tenant = ARGV[1], paused = {}})) do
  local first = redis.call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')
  if first[1] then
    local scheduled = redis.call('ZCOUNT', lane.key, '(' .. ARGV[2], '+inf')
    waiting[#waiting + 1] = {lane.queue, first[2], scheduled}
  end
end
return {head()[1], redis.call('HGETALL', root .. 'counts/' .. ARGV[1]), waiting}
