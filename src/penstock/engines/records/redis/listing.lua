-- A page of one tenant's records, by life: where it ends ('' if there is no more) and their values.
-- Few records are looked up in the indexes of their shelves; of many, the next ones are looked at.
-- ARGV: what is asked for, as MessagePack.
local asked = cmsgpack.unpack(ARGV[1])
local beginning = asked.tenant .. '/'
-- Values at once: about as many as are wanted, so that what comes behind is not read in vain.
local STEP = math.min(200, math.max(50, asked.count))
local LITTERS = 10 -- whose names are asked for at once

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
  if not string.find(asked.letters, string.sub(value, 31, 31), 1, true) then return false end
  local high, low = string.byte(value, 32, 33)
  local queue, type = string.match(string.sub(value, 36, 35 + high * 256 + low), '^([^/]*)/([^/]*)/')
  return (not asked.queues or asked.queues[queue]) and (not asked.types or asked.types[type])
end

-- Of values, in the order of their lives, takes those that are asked for; answers how many were
-- looked at until there were enough.
local found = {}
local function take(values)
  for place, value in ipairs(values) do
    if is_asked(value) then
      found[#found + 1] = value
      if #found == asked.count then return place end
    end
  end
  return #values
end

local function life_of(value) return string.sub(value, 9, 26) end

-- The values of records by their names, as far as they are there.
local function read(names)
  local keys, values = {}, {}
  for place, name in ipairs(names) do keys[place] = root .. 'job/' .. name end
  for _, value in ipairs(values_of(keys)) do
    if value then values[#values + 1] = value end
  end
  return values
end

local reached = ''
if total <= asked.few then
  local members = {}
  for _, index in ipairs(indexes) do
    for _, member in ipairs(redis.call('ZRANGE', index, 0, -1)) do
      local life = string.sub(member, 1, 18)
      if string.sub(member, 19, 18 + #beginning) == beginning and life > asked.after
        and life <= asked.last then
        members[#members + 1] = member
      end
    end
  end
  table.sort(members)
  for first = 1, #members, STEP do
    local names, last = {}, math.min(first + STEP - 1, #members)
    for place = first, last do names[#names + 1] = string.sub(members[place], 19) end
    local values = read(names)
    local taken = take(values)
    if #found == asked.count and (taken < #values or last < #members) then
      reached = life_of(values[taken])
      break
    end
  end
else
  -- From the litter that the life is in after which the page begins, litter by litter.
  local litters, looked = root .. 'lives/' .. asked.tenant, 0
  local from = redis.call('ZREVRANGEBYLEX', litters, '[' .. asked.after, '-', 'LIMIT', 0, 1)[1]
  from = from and '[' .. from or '-'
  while from and reached == '' do
    local firsts = redis.call(
      'ZRANGEBYLEX', litters, from, '[' .. asked.last, 'LIMIT', 0, LITTERS)
    from = nil
    for _, first in ipairs(firsts) do
      local names, values = {}, {}
      for id in string.gmatch(redis.call('GET', litters .. '/' .. first) or '', '[^/]+') do
        names[#names + 1] = beginning .. id
      end
      for _, value in ipairs(read(names)) do
        local life = life_of(value)
        if life > asked.after and life <= asked.last then values[#values + 1] = value end
      end
      table.sort(values, function(one, other) return life_of(one) < life_of(other) end)
      local taken = take(values)
      looked = looked + taken
      if #found == asked.count or looked >= asked.looks_at then
        reached = life_of(values[taken])
        break
      end
      from = '(' .. first
    end
  end
end
local lengths, bytes = joined(found)
return {reached, lengths, bytes}
