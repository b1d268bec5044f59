-- Which jobs are claimed next: queues by turns, and within a queue by priority, time and number.
local function comes_before(one, other)
  if one.at ~= other.at then
    return one.at < other.at
  end
  return one.job < other.job
end

-- The next entries of lanes of one priority, by time and number.
local function heads_of(lanes, budgets, wanted)
  local heads = {}
  for _, lane in ipairs(lanes) do
    local budget = budgets[lane.type]
    local most = budget and math.min(wanted, budget.left) or wanted
    if most > 0 then
      for place, own in ipairs(redis.call('LRANGE', lane.line, lane.passed, lane.passed + most - 1)) do
        heads[#heads + 1] = { job = string.sub(own, 9), at = (struct.unpack('>I8', own)), lane = lane,
          place = lane.passed + place }
      end
      local early = redis.call('ZRANGE', lane.early, lane.early_passed, lane.early_passed + most - 1, 'WITHSCORES')
      for place = 1, #early, 2 do
        heads[#heads + 1] = { job = early[place], at = tonumber(early[place + 1]), lane = lane }
      end
    end
  end
  if #lanes > 1 or (heads[1] and not heads[#heads].place) then
    table.sort(heads, comes_before)
  end
  while #heads > wanted do
    heads[#heads] = nil
  end
  return heads
end

-- Choose entries if their types may still start jobs. One is passed over if its document no longer
-- says that it is in line.
local chosen = {}
local is_chosen = {}
local function choose_heads(heads, budgets)
  local numbers = {}
  for place, head in ipairs(heads) do
    numbers[place] = head.job
  end
  local texts = redis.call('HMGET', prefix .. 'job', unpack(numbers))
  local leases = redis.call('HMGET', prefix .. 'lease', unpack(numbers))
  for place, head in ipairs(heads) do
    local lane = head.lane
    local budget = budgets[lane.type]
    if not budget or budget.left > 0 then
      if head.place then
        lane.passed = head.place
      else
        lane.early_passed = lane.early_passed + 1
      end
      if not is_chosen[head.job] and is_in_line(texts[place], leases[place], head.at, lane.prefix) then
        if budget then
          budget.left = budget.left - 1
          budget.taken = budget.taken + 1
        end
        is_chosen[head.job] = true
        head.text = texts[place]
        chosen[#chosen + 1] = head
      elseif not head.place then
        lane.gone[#lane.gone + 1] = head.job
      end
    end
  end
end

-- Choose the first jobs of the lanes of a queue; return them.
local function choose(lanes, budgets, wanted)
  table.sort(lanes, function(one, other) return one.priority < other.priority end)
  local before = #chosen
  local place = 1
  while place <= #lanes and #chosen - before < wanted do
    local priority = lanes[place].priority
    local equals = {}
    while place <= #lanes and lanes[place].priority == priority do
      equals[#equals + 1] = lanes[place]
      place = place + 1
    end
    while #chosen - before < wanted do
      local heads = heads_of(equals, budgets, wanted - (#chosen - before))
      if #heads == 0 then
        break
      end
      choose_heads(heads, budgets)
    end
  end
  return { unpack(chosen, before + 1) }
end

-- The queues in the order of their turns, and the share of each.
local function shares_of(row, room)
  local order, shares = {}, {}
  for place, queue in ipairs(row) do
    if not shares[queue] then
      shares[queue] = 0
      order[#order + 1] = queue
    end
    shares[queue] = shares[queue] + math.floor(room / #row) + (place <= room % #row and 1 or 0)
  end
  return order, shares
end

-- Every queue's share, then what others left over; see core/limits/weights.py.
local function choose_by_turns(queues, row, budgets, room, rooms)
  local order, shares = shares_of(row, room)
  local first, more = {}, {}
  local left = room
  for _, queue in ipairs(order) do
    first[queue], more[queue] = {}, {}
    if queues[queue] then
      local wanted = shares[queue]
      first[queue] = choose(queues[queue], budgets, math.min(wanted, rooms[queue] or wanted, left))
      left = left - #first[queue]
    end
  end
  for _, queue in ipairs(order) do
    local count = #first[queue]
    if left > 0 and queues[queue] and count == shares[queue] then
      more[queue] = choose(queues[queue], budgets, math.min(left, (rooms[queue] or left + count) - count))
      left = left - #more[queue]
    end
  end
  local line = {}
  for _, queue in ipairs(order) do
    for _, part in ipairs({ first[queue], more[queue] }) do
      for _, head in ipairs(part) do
        line[#line + 1] = head
      end
    end
  end
  return line
end
