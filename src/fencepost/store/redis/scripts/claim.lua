-- Lease claimable jobs. ARGV[2] is the request, see jobs/claim.py. What may start is in limits.lua,
-- which jobs are next in choice.lua.
-- Returns the time, what is to be done first, the jobs (numbers, documents, leases, and, if there
-- are any, payloads that are kept apart and checkpoints), when to claim again, and whether only the
-- limit of the app keeps more from starting.
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

-- The lanes that have jobs, as far as they are asked for and not paused, by queue; and the queues.
local function open_lanes()
  local asked_queues, asked_types = request.queues and set_of(request.queues), request.types and set_of(request.types)
  local paused = set_of(redis.call('SMEMBERS', prefix .. 'pauses'))
  local queues, names = {}, {}
  for _, lane in ipairs(redis.call('SMEMBERS', prefix .. 'open')) do
    local priority, queue, type = string.match(lane, '^(%d)\n([^\n]*)\n(.*)$')
    local is_asked = (not asked_queues or asked_queues[queue]) and (not asked_types or asked_types[type])
      and (request.own_types or string.sub(type, 1, #request.reserved) ~= request.reserved)
    if is_asked and not paused['queue\n' .. queue] and not paused['type\n' .. type] then
      local line, early = prefix .. 'line\n' .. lane, prefix .. 'early\n' .. lane
      if redis.call('EXISTS', line, early) == 0 then
        write('SREM', prefix .. 'open', lane)
      else
        if not queues[queue] then
          queues[queue] = {}
          names[#names + 1] = queue
        end
        local lanes = queues[queue]
        lanes[#lanes + 1] = { name = lane, priority = tonumber(priority), queue = queue, type = type,
          line = line, early = early, passed = 0, early_passed = 0, trimmed = 0, gone = {},
          prefix = request.scheduled .. ' ' .. priority .. ' ' }
      end
    end
  end
  return queues, names
end

local queues, names = open_lanes()
local room, rooms, is_limited = rooms_of(request.limit)
local budgets, ahead = budgets_of(queues)
if not budgets then
  return { whole(now), { 'set_back' }, ahead }
end
local spent = drop_spent(queues, names, budgets)

-- Without weights, queues have equal turns, from the turn on that this worker has come to.
local row = request.row
if not row then
  row = {}
  table.sort(names)
  for place = 1, #names do
    row[place] = names[(request.turn + place - 1) % #names + 1]
  end
end
local line = choose_by_turns(queues, row, budgets, room, rooms)

-- Lease them, up to the bytes of one claim. A batch costs a constant number of calls.
local has_payloads = redis.call('EXISTS', prefix .. 'payload') == 1
local has_checkpoints = redis.call('EXISTS', prefix .. 'checkpoint') == 1
local jobs, numbers, again, leases, held, ends_of = {}, {}, {}, {}, {}, {}
local payloads, checkpoints = {}, {}
local since = '|' .. whole(now) .. '|'
local terms = '|' .. whole(request.ttl) .. '|' .. whole(request.grace) .. '|' .. request.worker
local usual_end = math.min(now + request.ttl, now + request.timeout + request.grace)
local usual_end_text = whole(usual_end)
local ends_by_queue, moved = {}, {}
local ends

local function size_of(head)
  local bytes = #head.text
  if has_payloads then
    bytes = bytes + redis.call('HSTRLEN', prefix .. 'payload', head.job)
  end
  if has_checkpoints then
    bytes = bytes + redis.call('HSTRLEN', prefix .. 'checkpoint', head.job)
  end
  return bytes
end

local function put_back(budget)
  if budget then
    budget.left = budget.left + 1
    budget.taken = budget.taken - 1
  end
end

local function lease(head)
  local job, lane = head.job, head.lane
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
  local own = request.token .. '|' .. whole(math.max(last + 1, now)) .. '|' .. attempt .. since .. ends_text .. terms
  numbers[#numbers + 1] = job
  leases[#leases + 1] = job
  leases[#leases + 1] = own
  held[#held + 1] = own
  ends_of[#ends_of + 1] = ends_text
  ends_of[#ends_of + 1] = job
  local of_queue = ends_by_queue[lane.queue] or {}
  ends_by_queue[lane.queue] = of_queue
  of_queue[#of_queue + 1] = ends_text
  of_queue[#of_queue + 1] = job
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

local size = 0
local is_full = false
for _, head in ipairs(line) do
  local bytes = size_of(head)
  is_full = is_full or (#jobs > 0 and size + bytes > request.bytes)
  if is_full then
    put_back(budgets[head.lane.type])
  else
    size = size + bytes
    lease(head)
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
local started = {}
for queue, own in pairs(ends_by_queue) do
  started[queue] = #own / 2
end
local shut = note_starts(queues, budgets, spent)
local short = is_limited and #jobs >= room and is_short(queues, rooms, budgets, started)

-- A worker that has free slots left is to be woken; see wake.lua.
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
return { whole(now), {}, { numbers, jobs, held, payloads, checkpoints }, due or false, (ends and whole(ends)) or expires or false, shut, short and 1 or 0 }
