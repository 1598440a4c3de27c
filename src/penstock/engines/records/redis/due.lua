-- When the first of some pending records is due that no turn has for itself, when the first lease runs
-- out, and how long turns may have what is due, in ms; '' if there is none. Unless something is due,
-- who asks is noted as waiting; last, how many wait ahead. ARGV[1]: what is asked, as MessagePack.
local asked = cmsgpack.unpack(ARGV[1])
local hidden, _, first_end = hidden_by_turns(asked.reserved_ms)
local hidden_lanes, due_by = 0, tonumber(asked.due_by)
for _ in pairs(hidden) do hidden_lanes = hidden_lanes + 1 end

local pending, held_ms = '', ''
for _, lane in ipairs(lanes_to_open(asked, '+inf', 1 + hidden_lanes)) do
  local passed = hidden[lane.key] or 0
  local at = redis.call('ZRANGE', lane.key, passed, passed, 'WITHSCORES')[2]
  if at and (pending == '' or tonumber(at) < tonumber(pending)) then pending = at end
  if passed > 0 then
    local first = redis.call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) <= due_by then held_ms = first_end - now_ms end
  end
end
local lease_end = redis.call('ZRANGE', root .. 'shelf/running', 0, 0, 'WITHSCORES')[2]

local ahead = 0
if asked.waiter then
  local is_due = pending ~= '' and tonumber(pending) <= due_by
  if (asked.stays or not is_due) and not redis.call('ZSCORE', root .. 'line', asked.waiter) then
    -- Where nothing can be written nobody is noted, and looks all the same.
    local want = cmsgpack.pack({tenant = asked.tenant, queues = asked.queues, types = asked.types})
    redis.pcall('ZADD', root .. 'line', now_ms, asked.waiter)
    redis.pcall('HSET', root .. 'waiters', asked.waiter, want)
  end
  ahead = redis.call('ZRANK', root .. 'line', asked.waiter) or redis.call('ZCARD', root .. 'line')
end
return {pending, lease_end or '', held_ms, ahead}
