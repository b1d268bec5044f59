-- Lanes: the jobs that can be claimed, by priority, queue and type. Nearly all come in the order in
-- which they are due, and stand in a list, which takes little memory; one that is due before the
-- last of the list is in a sorted set beside it. What leaves the middle of a list stays there and
-- is passed over: an entry counts only while its document says the same.
local function entry(at, number)
  return struct.pack('>I8', at) .. number
end

local function line_up(lane, pairs_)  -- when due, number, when due, number …, in order
  local line, early = {}, {}
  local key = prefix .. 'line\n' .. lane
  local last = redis.call('LINDEX', key, -1)
  for at = 1, #pairs_, 2 do
    local own = entry(pairs_[at], pairs_[at + 1])
    if not last or own > last then
      line[#line + 1] = own
      last = own
    else
      early[#early + 1] = whole(pairs_[at])
      early[#early + 1] = pairs_[at + 1]
    end
  end
  for at = 1, #line, 1000 do
    write('RPUSH', key, unpack(line, at, math.min(at + 999, #line)))
  end
  for at = 1, #early, 1000 do
    write('ZADD', prefix .. 'early\n' .. lane, unpack(early, at, math.min(at + 999, #early)))
  end
end

-- The head of a document: revision, version, attempt, length of leases, execution timeout, number
-- of the state, priority, when it was created, when it is due, how long it lives.
local HEAD = '^(%d+) (%d+) (%d+) (%d*) (%d*) (%d+) (%d+) (%d+) (-?%d+) (%d+)\n'

local LEASING = '^(%d+) (%d+) (%d+) (%d*) (%d*) '
local STANDING = '^%d+ %d+ %d+ %d* %d* (%d+ %d+ )(%d+) (-?%d+)'

-- Whether a document says that its job has this state and priority, and is due at this time.
local function is_in_line(text, lease, at, standing)
  if not text or lease then
    return false
  end
  local own, created, due = string.match(text, STANDING)
  return own == standing and created + due == at
end

-- Take entries off the beginning of a list that no longer count.
local function trim(lane, standing)
  local key = prefix .. 'line\n' .. lane
  for _ = 1, 100 do
    local first = redis.call('LINDEX', key, 0)
    if not first then
      return
    end
    local number = string.sub(first, 9)
    local text = redis.call('HGET', prefix .. 'job', number)
    local lease = redis.call('HGET', prefix .. 'lease', number)
    if is_in_line(text, lease, (struct.unpack('>I8', first)), standing) then
      return
    end
    write('LPOP', key)
  end
end
