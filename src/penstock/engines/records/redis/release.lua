-- Ends a turn that writes nothing. ARGV: the turn, its number.
redis.call('ZREM', root .. 'turns', ARGV[1])
local reserved = redis.call('HGET', root .. 'reserved', ARGV[1])
if reserved then
  redis.call('HDEL', root .. 'reserved', ARGV[1])
  -- What it had for itself others can claim again.
  local wakes = {}
  for index, count in pairs(cmsgpack.unpack(reserved).counts) do
    local place = string.sub(index, #root + 1)
    local tenant, queue, kind = string.match(place, '^lane/([^/]*)/([^/]*)/([^/]*)/')
    if tenant then wakes[#wakes + 1] = {tenant, queue, kind, count} end
  end
  wake(wakes)
end
local commit = tonumber(redis.call('HGET', root .. 'head', 'commit') or 0)
if commit > tonumber(ARGV[2]) then
  -- Commits that had to wait for it are readable now, also for whoever ended it.
  announce('')
end
return 1
