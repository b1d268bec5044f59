-- Lease claimable jobs. ARGV[2] is the request, see jobs/claim.py.
-- Returns the time, what is to be done first, the jobs (numbers, documents, leases, and, if there
-- are any, payloads that are kept apart and checkpoints), and when to claim again.
local request = cmsgpack.unpack(ARGV[2])

local function first(key)
  return redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
end

local function is_due(moment)
  return moment and tonumber(moment) <= now
end

-- What is overdue is done by the caller, who then claims again.
local todo = {}
local expires, due, outlived = first(prefix .. 'leases'), first(prefix .. 'due'), first(prefix .. 'lifetimes')
if request.recover and is_due(expires) then
  todo[#todo + 1] = 'recover'
end
if request.expire and is_due(outlived) then
  todo[#todo + 1] = 'expire'
end
if request.promote and (is_due(due) or redis.call('EXISTS', prefix .. 'freed') == 1) then
  todo[#todo + 1] = 'promote'
end
if #todo > 0 then
  return { whole(now), todo }
end

-- The lanes that have jobs, as far as they are asked for and not paused, by queue.
local function set_of(list)
  if not list then
    return nil
  end
  local set = {}
  for _, name in ipairs(list) do
    set[name] = true
  end
  return set
end

local asked_queues, asked_types = set_of(request.queues), set_of(request.types)
local paused = set_of(redis.call('SMEMBERS', prefix .. 'pauses'))
local queues = {}
local names = {}
for _, lane in ipairs(redis.call('SMEMBERS', prefix .. 'open')) do
  local priority, queue, type = string.match(lane, '^(%d)\n([^\n]*)\n(.*)$')
  local is_asked = (not asked_queues or asked_queues[queue]) and (not asked_types or asked_types[type])
    and (request.own_types or string.sub(type, 1, #request.reserved) ~= request.reserved)
  if is_asked and not paused['queue\n' .. queue] and not paused['type\n' .. type] then
    if redis.call('EXISTS', prefix .. 'line\n' .. lane, prefix .. 'early\n' .. lane) == 0 then
      write('SREM', prefix .. 'open', lane)
    else
      if not queues[queue] then
        queues[queue] = {}
        names[#names + 1] = queue
      end
      local lanes = queues[queue]
      lanes[#lanes + 1] = { name = lane, priority = tonumber(priority), queue = queue, type = type,
        line = prefix .. 'line\n' .. lane, early = prefix .. 'early\n' .. lane, passed = 0, early_passed = 0,
        trimmed = 0, gone = {}, prefix = request.scheduled .. ' ' .. priority .. ' ' }
    end
  end
end

-- How many jobs may start: in all, of a queue, of a type.
local room = request.limit
local rooms = {}
local limits = redis.call('HGETALL', prefix .. 'limits')
for place = 1, #limits, 2 do
  local scope, name = string.match(limits[place], '^([^\n]*)\n(.*)$')
  local leases = prefix .. (scope == 'app' and 'leases' or 'leases\n' .. name)
  local running = redis.call('ZCOUNT', leases, '(' .. whole(now), '+inf')
  local left = math.max(tonumber(limits[place + 1]) - running, 0)
  if scope == 'app' then
    room = math.min(room, left)
  else
    rooms[name] = left
  end
end

local budgets = {}
if redis.call('EXISTS', prefix .. 'type_limits') == 1 then
  for _, lanes in pairs(queues) do
    for _, lane in ipairs(lanes) do
      if budgets[lane.type] == nil then
        budgets[lane.type] = false
        local terms = redis.call('HGET', prefix .. 'type_limits', lane.type)
        local rate = terms and cjson.decode(terms).rate
        if rate and rate ~= cjson.null then
          local count, window, grain = rate.count, rate.window_us, rate.grain_us
          local moment = math.ceil(now / grain) * grain
          local uses = redis.call('HGETALL', prefix .. 'uses\n' .. lane.type)
          local used = 0
          for at = 1, #uses, 2 do
            local instant = tonumber(uses[at])
            if instant > moment then
              return { whole(now), { 'set_back' }, lane.type }
            elseif instant <= now - window then
              write('HDEL', prefix .. 'uses\n' .. lane.type, uses[at])
            else
              used = used + tonumber(uses[at + 1])
            end
          end
          budgets[lane.type] = { left = math.max(count - used, 0), moment = moment, taken = 0 }
        end
      end
    end
  end
end

-- A queue whose types may start nothing has no turn.
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

-- The next entries of lanes of one priority, by time and number.
local function heads_of(lanes, wanted)
  local heads = {}
  for _, lane in ipairs(lanes) do
    local budget = budgets[lane.type]
    local most = wanted
    if budget then
      most = math.min(most, budget.left)
    end
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
    table.sort(heads, function(one, other)
      if one.at ~= other.at then
        return one.at < other.at
      end
      return one.job < other.job
    end)
  end
  while #heads > wanted do
    heads[#heads] = nil
  end
  return heads
end

-- The first jobs of a queue, by priority, then by time and number. An entry is passed over if its
-- document no longer says that it is in line.
local chosen = {}
local is_chosen = {}
local function choose_among(lanes, wanted)
  local count = 0
  while count < wanted do
    local heads = heads_of(lanes, wanted - count)
    if #heads == 0 then
      break
    end
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
          count = count + 1
        elseif not head.place then
          lane.gone[#lane.gone + 1] = head.job
        end
      end
    end
  end
  return count
end

local function choose(queue, wanted)
  local lanes = queues[queue]
  table.sort(lanes, function(one, other) return one.priority < other.priority end)
  local count = 0
  local place = 1
  while place <= #lanes and count < wanted do
    local priority = lanes[place].priority
    local equals = {}
    while place <= #lanes and lanes[place].priority == priority do
      equals[#equals + 1] = lanes[place]
      place = place + 1
    end
    count = count + choose_among(equals, wanted - count)
  end
  return count
end

-- Every queue's share, then what others left over; see core/limits/weights.py. Without weights,
-- queues have equal turns, from the turn on that this worker has come to.
local row = request.row
if not row then
  row = {}
  table.sort(names)
  for place = 1, #names do
    row[place] = names[(request.turn + place - 1) % #names + 1]
  end
end
local left = room
local order = {}
local shares = {}
for place, queue in ipairs(row) do
  if not shares[queue] then
    shares[queue] = 0
    order[#order + 1] = queue
  end
  shares[queue] = shares[queue] + math.floor(room / #row) + (place <= room % #row and 1 or 0)
end
local by_queue = {}
local function take(queue, wanted)
  local before = #chosen
  local count = choose(queue, wanted)
  by_queue[queue] = by_queue[queue] or {}
  for place = before + 1, #chosen do
    table.insert(by_queue[queue], chosen[place])
  end
  left = left - count
  return count
end
local taken = {}
for _, queue in ipairs(order) do
  local wanted = shares[queue]
  taken[queue] = 0
  if queues[queue] then
    taken[queue] = take(queue, math.min(wanted, rooms[queue] or wanted, left))
  end
end
for _, queue in ipairs(order) do
  if left > 0 and queues[queue] and taken[queue] == shares[queue] then
    local more = math.min(left, (rooms[queue] or left + taken[queue]) - taken[queue])
    if more > 0 then
      take(queue, more)
    end
  end
end

-- Lease them, up to the bytes of one claim. A batch costs a constant number of calls.
local line = {}
for _, queue in ipairs(order) do
  for _, head in ipairs(by_queue[queue] or {}) do
    line[#line + 1] = head
  end
end
local has_payloads = redis.call('EXISTS', prefix .. 'payload') == 1
local has_checkpoints = redis.call('EXISTS', prefix .. 'checkpoint') == 1
local jobs, numbers, again, leases, held, ends_of = {}, {}, {}, {}, {}, {}
local payloads, checkpoints = {}, {}
local since = '|' .. whole(now) .. '|'
local terms = '|' .. whole(request.ttl) .. '|' .. whole(request.grace) .. '|' .. request.worker
local usual_end = math.min(now + request.ttl, now + request.timeout + request.grace)
local usual_end_text = whole(usual_end)
local ends_by_queue, moved = {}, {}
local size = 0
local ends
local is_full = false
for _, head in ipairs(line) do
  local job, lane = head.job, head.lane
  local bytes = #head.text
  if has_payloads then
    bytes = bytes + redis.call('HSTRLEN', prefix .. 'payload', job)
  end
  if has_checkpoints then
    bytes = bytes + redis.call('HSTRLEN', prefix .. 'checkpoint', job)
  end
  is_full = is_full or (#jobs > 0 and size + bytes > request.bytes)
  if is_full then
    local budget = budgets[lane.type]
    if budget then
      budget.left = budget.left + 1
      budget.taken = budget.taken - 1
    end
  else
    size = size + bytes
    if head.place then
      lane.trimmed = head.place
    else
      lane.gone[#lane.gone + 1] = job
    end
    local _, last, attempt, ttl, timeout = string.match(head.text, LEASING)
    last, attempt = tonumber(last), tonumber(attempt) + 1
    local ends_at, ends_text = usual_end, usual_end_text
    if ttl ~= '' or timeout ~= '' then
      local deadline = now + (tonumber(timeout) or request.timeout) + request.grace
      ends_at = math.min(now + (tonumber(ttl) or request.ttl), deadline)
      ends_text = whole(ends_at)
    end
    local lease = request.token .. '|' .. whole(math.max(last + 1, now)) .. '|' .. attempt .. since .. ends_text .. terms
    numbers[#numbers + 1] = job
    leases[#leases + 1] = job
    leases[#leases + 1] = lease
    held[#held + 1] = lease
    ends_of[#ends_of + 1] = ends_text
    ends_of[#ends_of + 1] = job
    local own = ends_by_queue[lane.queue] or {}
    ends_by_queue[lane.queue] = own
    own[#own + 1] = ends_text
    own[#own + 1] = job
    if last > 0 then
      again[#again + 1] = job
    end
    jobs[#jobs + 1] = head.text
    if not ends or ends_at < ends then
      ends = ends_at
    end
    local counted = lane.queue .. '\n' .. lane.type
    moved[counted] = (moved[counted] or 0) + 1
  end
end
if #jobs > 0 then
  write('HSET', prefix .. 'lease', unpack(leases))
  write('ZADD', prefix .. 'leases', unpack(ends_of))
  for queue, own in pairs(ends_by_queue) do
    write('ZADD', prefix .. 'leases\n' .. queue, unpack(own))
  end
  if has_payloads then
    payloads = redis.call('HMGET', prefix .. 'payload', unpack(numbers))
  end
  if #again > 0 then
    write('HDEL', prefix .. 'progress', unpack(again))
    if has_checkpoints then
      checkpoints = redis.call('HMGET', prefix .. 'checkpoint', unpack(numbers))
    end
  end
end
for _, lanes in pairs(queues) do
  for _, lane in ipairs(lanes) do
    if #lane.gone > 0 then
      write('ZREM', lane.early, unpack(lane.gone))
    end
    if lane.trimmed > 0 then
      write('LTRIM', lane.line, lane.trimmed, -1)
    end
    if lane.passed > lane.trimmed then
      trim(lane.name, lane.prefix)
    end
  end
end
for counted, count in pairs(moved) do
  local waiting = request.scheduled .. '\n' .. counted
  if write('HINCRBY', prefix .. 'counts', waiting, -count) == 0 then
    write('HDEL', prefix .. 'counts', waiting)
  end
  write('HINCRBY', prefix .. 'counts', request.running .. '\n' .. counted, count)
end

-- Rates: note the starts, and say which are used up while jobs wait.
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
-- Who has free slots left is to be woken; see wake.lua.
if request.listener then
  if #jobs < request.limit then
    write('HSET', prefix .. 'sleepers', request.listener, request.terms)
  else
    write('HDEL', prefix .. 'sleepers', request.listener)
  end
end
if expires and ends then
  ends = math.min(ends, tonumber(expires))
end
return { whole(now), {}, { numbers, jobs, held, payloads, checkpoints }, due or false, (ends and whole(ends)) or expires or false, shut }
