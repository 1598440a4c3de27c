-- The keys of one tenant that time alone will free, later than a time. ARGV: tenant, time.
local beginning, names, keys = ARGV[1] .. '/', {}, {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', root .. 'lapsing', '(' .. ARGV[2], '+inf')) do
  if string.sub(name, 1, #beginning) == beginning then
    names[#names + 1] = name
    keys[#keys + 1] = root .. 'hold/' .. name
  end
end
local name_lengths, name_bytes = joined(names)
local lengths, bytes = joined(values_of(keys))
return {name_lengths, name_bytes, lengths, bytes}
