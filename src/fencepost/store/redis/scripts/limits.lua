-- What may start: how many jobs in all, of each queue, and of each type that has a rate.
local function rooms_of(limit)
  local room, rooms, is_limited = limit, {}, false
  local limits = redis.call('HGETALL', prefix .. 'limits')
  for place = 1, #limits, 2 do
    local scope, name = string.match(limits[place], '^([^\n]*)\n(.*)$')
    local leases = prefix .. (scope == 'app' and 'leases' or 'leases\n' .. name)
    local running = redis.call('ZCOUNT', leases, '(' .. whole(now), '+inf')
    local left = math.max(tonumber(limits[place + 1]) - running, 0)
    if scope == 'app' then
      is_limited = left < room
      room = math.min(room, left)
    else
      rooms[name] = left
    end
  end
  return room, rooms, is_limited
end

-- Whether jobs are left that only the limit of the app keeps from starting.
local function is_short(queues, rooms, budgets, started)
  for queue, lanes in pairs(queues) do
    if not rooms[queue] or rooms[queue] > (started[queue] or 0) then
      for _, lane in ipairs(lanes) do
        local budget = budgets[lane.type]
        if not (budget and budget.left == 0) and redis.call('EXISTS', lane.line, lane.early) > 0 then
          return true
        end
      end
    end
  end
  return false
end

-- How often jobs of a type may still start; false without a rate; nil if the clock was set back,
-- and starts are noted that are still to come.
local function budget_of(type_)
  local terms = redis.call('HGET', prefix .. 'type_limits', type_)
  local rate = terms and cjson.decode(terms).rate
  if not rate or rate == cjson.null then
    return false
  end
  local count, window, grain = rate.count, rate.window_us, rate.grain_us
  local moment = math.ceil(now / grain) * grain
  local uses = redis.call('HGETALL', prefix .. 'uses\n' .. type_)
  local used = 0
  for at = 1, #uses, 2 do
    local instant = tonumber(uses[at])
    if instant > moment then
      return nil
    elseif instant <= now - window then
      write('HDEL', prefix .. 'uses\n' .. type_, uses[at])
    else
      used = used + tonumber(uses[at + 1])
    end
  end
  return { left = math.max(count - used, 0), moment = moment, taken = 0 }
end

-- The budgets of the types of these queues; or nil, and the type whose starts are still to come.
local function budgets_of(queues)
  local budgets = {}
  if redis.call('EXISTS', prefix .. 'type_limits') == 0 then
    return budgets
  end
  for _, lanes in pairs(queues) do
    for _, lane in ipairs(lanes) do
      if budgets[lane.type] == nil then
        local budget = budget_of(lane.type)
        if budget == nil then
          return nil, lane.type
        end
        budgets[lane.type] = budget
      end
    end
  end
  return budgets
end

-- Take the lanes out whose types may start nothing: a queue that has no others has no turn.
local function drop_spent(queues, names, budgets)
  local spent = {}
  for place = #names, 1, -1 do
    local lanes = {}
    for _, lane in ipairs(queues[names[place]]) do
      local budget = budgets[lane.type]
      if budget and budget.left == 0 then
        spent[lane.type] = true
      else
        lanes[#lanes + 1] = lane
      end
    end
    queues[names[place]] = lanes
    if #lanes == 0 then
      queues[names[place]] = nil
      table.remove(names, place)
    end
  end
  return spent
end

-- Note the starts; return the types that may start nothing more while jobs of theirs wait.
local function note_starts(queues, budgets, spent)
  for type_, budget in pairs(budgets) do
    if budget and budget.taken > 0 then
      write('HINCRBY', prefix .. 'uses\n' .. type_, whole(budget.moment), budget.taken)
    end
  end
  for _, lanes in pairs(queues) do
    for _, lane in ipairs(lanes) do
      local budget = budgets[lane.type]
      if budget and budget.left == 0 and redis.call('EXISTS', lane.line, lane.early) > 0 then
        spent[lane.type] = true
      end
    end
  end
  local shut = {}
  for type_ in pairs(spent) do
    shut[#shut + 1] = type_
  end
  return shut
end
