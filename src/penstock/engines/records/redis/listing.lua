-- A page of one tenant's records, by life: where it ends ('' if there is no more) and their values.
-- Few records are looked up in the indexes of their shelves; of many, the next ones are looked at.
-- ARGV: what is asked for, as MessagePack.
local asked = cmsgpack.unpack(ARGV[1])
local beginning = asked.tenant .. '/'
-- Values at once: about as many as are wanted, so that what comes behind is not read in vain.
local STEP = math.min(200, math.max(50, asked.count))

local indexes, total = {}, 0
local function count(index)
  indexes[#indexes + 1] = index
  total = total + redis.call('ZCARD', index)
end
for _, shelf in ipairs(asked.shelves) do
  if shelf ~= 'pending' then
    count(root .. 'shelf/' .. shelf)
  else
    for _, lane in ipairs(lanes_of(asked)) do
      if total > asked.few then break end
      count(lane.key)
    end
  end
end

-- Of a value: the letter of its shelf, and its lane (see packing.py).
local function is_asked(value)
  if not string.find(asked.letters, string.sub(value, 35, 35), 1, true) then return false end
  local high, low = string.byte(value, 36, 37)
  local queue, type = string.match(string.sub(value, 44, 43 + high * 256 + low), '^([^/]*)/([^/]*)/')
  return (not asked.queues or asked.queues[queue]) and (not asked.types or asked.types[type])
end

-- Of members, each a life in digits and an id, the values that are asked for; how many were looked
-- at until there were enough.
local found = {}
local function take(members)
  local keys = {}
  for place, member in ipairs(members) do
    keys[place] = root .. 'job/' .. beginning .. string.sub(member, 19)
  end
  for place, value in ipairs(values_of(keys)) do
    if value and is_asked(value) then
      found[#found + 1] = value
      if #found == asked.count then return place end
    end
  end
  return #members
end

local reached = ''
if total <= asked.few then
  local members = {}
  for _, index in ipairs(indexes) do
    for _, member in ipairs(redis.call('ZRANGE', index, 0, -1)) do
      local life = string.sub(member, 1, 18)
      if string.sub(member, 19, 18 + #beginning) == beginning and life > asked.after
        and life <= asked.last then
        members[#members + 1] = life .. string.sub(member, 19 + #beginning)
      end
    end
  end
  table.sort(members)
  for first = 1, #members, STEP do
    local last = math.min(first + STEP - 1, #members)
    local looked = first - 1 + take({unpack(members, first, last)})
    if #found == asked.count and looked < #members then
      reached = string.sub(members[looked], 1, 18)
      break
    end
  end
else
  local lives, after, looked = root .. 'lives/' .. asked.tenant, asked.after, 0
  while true do
    local members = redis.call(
      'ZRANGEBYLEX', lives, '(' .. after .. '\255', '[' .. asked.last .. '\255',
      'LIMIT', 0, STEP)
    if #members == 0 then break end
    local taken = take(members)
    looked = looked + taken
    after = string.sub(members[taken], 1, 18)
    if #found == asked.count or looked >= asked.looks_at then
      reached = after
      break
    end
    if #members < STEP then break end
  end
end
local lengths, bytes = joined(found)
return {reached, lengths, bytes}
