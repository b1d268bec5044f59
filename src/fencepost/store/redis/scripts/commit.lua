-- Write if everything that was read is still so. ARGV[2] has when a lease ends on which this
-- relies, what the caller believes the time to be if it has not read it, groups of checks (a kind,
-- a key, fields, what is expected), and commands.
-- Returns 1; 0 if something has changed, and then nothing was written; -1 if jobs are refused.
local request = cmsgpack.unpack(ARGV[2])
if request.deadline and now >= request.deadline then
  return 0
end
if request.believed and math.abs(now - request.believed) > 1000000 then
  return 0
end

local function holds(kind, found, expected)
  if kind == 'absent' then
    return not found
  elseif kind == 'above' then
    return tonumber(found or 0) < expected
  elseif not found then
    return false
  elseif kind == 'exact' then
    return found == expected
  elseif kind == 'begins' then
    return string.sub(found, 1, #expected) == expected
  end
  return string.match(found, '^%d+') == expected  -- the revision of a document
end

for _, group in ipairs(request.checks) do
  local kind, key, fields, expected = unpack(group)
  if kind == 'accepting' then
    if redis.call('EXISTS', key) == 1 then
      return -1
    end
  elseif kind == 'room' then
    if redis.call('HLEN', key) >= expected then
      return 0
    end
  else
    local found = redis.call('HMGET', key, unpack(fields))
    for at = 1, #fields do
      if not holds(kind, found[at], expected[at]) then
        return 0
      end
    end
  end
end

local special = {}

function special.BURY(places, job, stream, ...)  -- a dead letter
  write('HSET', places, job, write('XADD', stream, '*', ...))
end

function special.EXHUME(places, job, stream)
  local id = redis.call('HGET', places, job)
  if id then
    write('XDEL', stream, id)
    write('HDEL', places, job)
  end
end

function special.COUNT(key, field, change)  -- what is counted down to 0 is gone
  if write('HINCRBY', key, field, change) == 0 then
    write('HDEL', key, field)
  end
end

function special.FLOW(flows, jobs, flow)  -- listed as long as it has jobs
  if redis.call('EXISTS', jobs) == 1 then
    write('ZADD', flows, 0, flow)
  else
    write('ZREM', flows, flow)
  end
end

function special.LINE(lane, pairs_)
  line_up(lane, pairs_)
  write('SADD', prefix .. 'open', lane)
  local queue, type_ = string.match(lane, '^%d\n([^\n]*)\n(.*)$')
  wake(queue, type_, #pairs_ / 2)
end

function special.LEAVE(lane, scheduled, numbers)
  write('ZREM', prefix .. 'early\n' .. lane, unpack(numbers))
  trim(lane, scheduled .. ' ' .. string.sub(lane, 1, 1) .. ' ')
end

-- Note again when the first live job of a block has lived its time.
function special.AGE(block, ended)
  local numbers = {}
  for place = 1, 256 do
    numbers[place] = struct.pack('>I8', block * 256 + place - 1)
  end
  local is_ended = set_of(ended)
  local first
  for _, text in ipairs(redis.call('HMGET', prefix .. 'job', unpack(numbers))) do
    if text then
      local _, _, _, _, _, number, _, created, _, lifetime = string.match(text, HEAD)
      local ends = number and not is_ended[number] and tonumber(created) + tonumber(lifetime)
      if ends and (not first or ends < first) then
        first = ends
      end
    end
  end
  if first then
    write('ZADD', prefix .. 'lifetimes', whole(first), block)
  else
    write('ZREM', prefix .. 'lifetimes', block)
  end
end

-- The news come last: one who may not publish has written all the same.
function special.PUBLISH(channel, word)
  redis.pcall('PUBLISH', channel, word)
end

for _, command in ipairs(request.commands) do
  local own = special[command[1]]
  if own then
    own(unpack(command, 2))
  else
    write(unpack(command))
  end
end
return 1
