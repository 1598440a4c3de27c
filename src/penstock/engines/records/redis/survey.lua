-- What one tenant has and what waits, as of one moment: the commit, counts, what lanes begin with,
-- and how many of a lane are not due yet, where some may be. ARGV: tenant, time.
-- Lanes are not opened, so that it takes little for each of many.
local scheduled = {}
for _, name in ipairs(redis.call(
  'ZRANGEBYSCORE', root .. 'tails/' .. ARGV[1], '(' .. ARGV[2], '+inf')) do
  local lane = root .. 'lane/' .. ARGV[1] .. '/' .. name
  scheduled[#scheduled + 1] = name
  scheduled[#scheduled + 1] = redis.call('ZCOUNT', lane, '(' .. ARGV[2], '+inf')
end
-- Each is one string, put together at once: a loop would take longer than all the rest.
local function strung(values) return table.concat(values, '\0') end
return {
  head()[1], strung(redis.call('HGETALL', root .. 'counts/' .. ARGV[1])),
  strung(redis.call('HVALS', root .. 'lanes/' .. ARGV[1])), strung(scheduled),
}
