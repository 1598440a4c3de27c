-- What the scripts have in common; it is put before each of them.
-- KEYS[1] is the root of all names, whose hash tag keeps a queue on one node of a cluster.
local root = KEYS[1]
local CHUNK = 1000 -- arguments of one call; Lua's stack takes a few thousand
local TURN_MS_MAX = 3600000 -- no deadline is further away, unless the server's clock was set back

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- The lowest number of a turn that is under way; those whose time is up are ended on the way.
local function lowest_under_way()
  while true do
    local first = redis.call('ZRANGE', root .. 'turns', 0, 0)[1]
    if not first then return nil end
    local number, deadline = string.match(first, '^(%d+)/(%d+)/')
    deadline = tonumber(deadline)
    if now_ms <= deadline and deadline <= now_ms + TURN_MS_MAX then return tonumber(number) end
    redis.call('ZREM', root .. 'turns', first)
  end
end

-- The newest commit, its time, completed records, the charter, and what is readable.
local function head()
  local fields = redis.call('HMGET', root .. 'head', 'commit', 'at', 'completed')
  local commit, lowest = tonumber(fields[1] or 0), lowest_under_way()
  local readable = commit
  if lowest and lowest <= commit then readable = lowest - 1 end
  local charter = redis.call('GET', root .. 'charter') or ''
  return {commit, fields[2] or '0', tonumber(fields[3] or 0), charter, readable}
end

-- Calls a command for many arguments, some at a time.
local function call_many(command, key, arguments)
  for first = 1, #arguments, CHUNK do
    local last = math.min(first + CHUNK - 1, #arguments)
    redis.call(command, key, unpack(arguments, first, last))
  end
end

-- The values of these keys, in order; false where there is none.
local function values_of(keys)
  local values = {}
  for first = 1, #keys, CHUNK do
    local last = math.min(first + CHUNK - 1, #keys)
    for _, value in ipairs(redis.call('MGET', unpack(keys, first, last))) do
      values[#values + 1] = value
    end
  end
  return values
end

-- Many strings as two, since one long answer is read faster than many short ones.
local function joined(values)
  local lengths = {}
  for place, value in ipairs(values) do lengths[place] = #value end
  return table.concat(lengths, ','), table.concat(values)
end

-- The lanes of pending records that are asked for: {name, key, priority}.
local function lanes_of(wanted)
  local queues, types, paused = wanted.queues, wanted.types, wanted.paused
  local lanes = {}
  for _, name in ipairs(redis.call('SMEMBERS', root .. 'lanes/' .. wanted.tenant)) do
    local queue, type, priority = string.match(name, '^([^/]*)/([^/]*)/(-?%d+)$')
    if not paused[queue] and (not queues or queues[queue]) and (not types or types[type]) then
      local key = root .. 'lane/' .. wanted.tenant .. '/' .. name
      lanes[#lanes + 1] = {name = name, key = key, queue = queue, priority = tonumber(priority)}
    end
  end
  return lanes
end
