-- When the first of some pending records is due that no turn has for itself, when the first lease runs
-- out, and how long turns may have what is due, in ms; '' if there is none. Unless something is due,
-- who asks is noted as waiting; last, how many wait ahead. ARGV[1]: what is asked, as MessagePack.
local asked = cmsgpack.unpack(ARGV[1])
local hidden, _, first_end = hidden_by_turns(asked.reserved_ms)
local due_by = tonumber(asked.due_by)

local pending, held_ms = nil, ''
-- Looks at a lane; what it begins with is known from the board unless a turn has that for itself.
local function look(lane)
  local passed, at = hidden[lane.key] or 0, lane.at
  if passed > 0 then
    if at <= due_by then held_ms = first_end - now_ms end
    at = tonumber(redis.call('ZRANGE', lane.key, passed, passed, 'WITHSCORES')[2])
  end
  if at and (not pending or at < pending) then pending = at end
  return passed == 0
end
for _, board in ipairs(boards_for('ready', asked)) do
  -- They are by priority, and the first may have come due anywhere.
  each_lane(board, asked, CHUNK, function(lane) look(lane) end)
end
for _, board in ipairs(boards_for('later', asked)) do each_lane(board, asked, 1, look) end
local lease_end = redis.call('ZRANGE', root .. 'shelf/running', 0, 0, 'WITHSCORES')[2]

local ahead = 0
if asked.waiter then
  local is_due = pending and pending <= due_by
  if (asked.stays or not is_due) and not redis.call('ZSCORE', root .. 'line', asked.waiter) then
    -- Where nothing can be written nobody is noted, and looks all the same.
    local want = cmsgpack.pack({tenant = asked.tenant, queues = asked.queues, types = asked.types})
    redis.pcall('ZADD', root .. 'line', now_ms, asked.waiter)
    redis.pcall('HSET', root .. 'waiters', asked.waiter, want)
  end
  ahead = redis.call('ZRANK', root .. 'line', asked.waiter) or redis.call('ZCARD', root .. 'line')
end
return {pending and string.format('%.17g', pending) or '', lease_end or '', held_ms, ahead}
