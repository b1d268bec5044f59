-- Store new jobs that wait for nothing and have no key. ARGV[2] has their shapes, the jobs, and
-- policies by digest. A shape is what jobs have in common: where they are found, with times from
-- now on (and -1 where the score is the number of the job). A job is the place of its shape, an id,
-- the document from its creation on, and its payload if that is kept apart.
-- Returns 1; 0 if this has to be done by a commit, and then nothing was written; -1 if jobs are
-- refused.
local request = cmsgpack.unpack(ARGV[2])
if redis.call('EXISTS', prefix .. 'refusing') == 1 then
  return -1
end
for _, shape in ipairs(request.shapes) do
  if redis.call('HEXISTS', prefix .. 'lanes', shape.lane) == 0 then
    return 0
  end
end

local function in_portions(list, width, run)
  local step = 1000 * width
  for at = 1, #list, step do
    run(unpack(list, at, math.min(at + step - 1, #list)))
  end
end

local function has_any(key, fields)
  local has = false
  in_portions(fields, 1, function(...)
    for _, found in ipairs(redis.call('HMGET', key, ...)) do
      has = has or found
    end
  end)
  return has
end

local jobs, shapes = request.jobs, request.shapes
local ids = {}
for place, job in ipairs(jobs) do
  ids[place] = job[2]
end
if has_any(prefix .. 'ids', ids) then
  return 0
end

local last = write('INCRBY', prefix .. 'seq', #jobs)
-- A server that lost its last moments, or the key `seq`, gives numbers again.
if tonumber(redis.call('HGET', prefix .. 'closed', 'seq') or 0) > last - #jobs then
  return 0
end
local moment = whole(now)
local documents, payloads, known, sorted, blocks = {}, {}, {}, {}, {}
for place, job in ipairs(jobs) do
  local seq = last - #jobs + place
  local number = struct.pack('>I8', seq)
  local shape = shapes[job[1]]
  documents[place * 2 - 1], documents[place * 2] = number, shape.before .. moment .. job[3]
  known[place * 2 - 1], known[place * 2] = job[2], number
  if job[4] then
    payloads[#payloads + 1] = number
    payloads[#payloads + 1] = job[4]
  end
  if shape.ready then
    local line = shape.line or {}
    shape.line = line
    line[#line + 1] = now
    line[#line + 1] = number
  end
  for _, own in ipairs(shape.sorted) do
    local key, score = own[1], own[2]
    local pairs_ = sorted[key] or {}
    sorted[key] = pairs_
    pairs_[#pairs_ + 1] = score < 0 and whole(seq) or whole(now + score)
    pairs_[#pairs_ + 1] = number
  end
  local block = math.floor(seq / 256)
  blocks[block] = math.min(blocks[block] or math.huge, now + shape.lifetime)
  shape.count = (shape.count or 0) + 1
end

local numbers = {}
for place = 1, #jobs do
  numbers[place] = documents[place * 2 - 1]
end
if has_any(prefix .. 'job', numbers) then
  return 0
end

local function put(name, key)
  return function(...) write(name, key, ...) end
end

in_portions(documents, 2, put('HSET', prefix .. 'job'))
in_portions(known, 2, put('HSET', prefix .. 'ids'))
in_portions(payloads, 2, put('HSET', prefix .. 'payload'))
in_portions(request.policies, 2, put('HSET', prefix .. 'policies'))
for key, pairs_ in pairs(sorted) do
  in_portions(pairs_, 2, put('ZADD', key))
end
for block, ends in pairs(blocks) do
  write('ZADD', prefix .. 'lifetimes', 'LT', whole(ends), whole(block))
end
for _, shape in ipairs(shapes) do
  local count = shape.count
  write('HINCRBY', prefix .. 'counts', shape.counted, count)
  if shape.flow then
    write('ZADD', prefix .. 'flows', 0, shape.flow)
  end
  if shape.ready then
    line_up(shape.ready, shape.line)
    write('SADD', prefix .. 'open', shape.ready)
  else
    count = 1  -- so that a worker learns when it will be due
  end
  local queue, type_ = string.match(shape.lane, '^([^\n]*)\n(.*)$')
  wake(queue, type_, count)
end
return 1
