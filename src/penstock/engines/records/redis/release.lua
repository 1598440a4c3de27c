-- Ends a turn that writes nothing. ARGV: the turn, its number.
redis.call('ZREM', root .. 'turns', ARGV[1])
redis.call('HDEL', root .. 'reserved', ARGV[1])
local commit = tonumber(redis.call('HGET', root .. 'head', 'commit') or 0)
if commit > tonumber(ARGV[2]) then
  -- Commits that had to wait for it are readable now, also for whoever ended it.
  announce('')
end
return 1
