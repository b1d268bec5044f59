-- The start of every script. KEYS[1] is the prefix of all keys, and says which node has them;
-- ARGV[1] is the time in microseconds, empty in production, where it is the server's.
local prefix = KEYS[1]
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function whole(number)
  return string.format('%.0f', number)
end

local function set_of(list)
  local set = {}
  for _, each in ipairs(list) do
    set[each] = true
  end
  return set
end

-- Every write goes through here. If the server refuses the first, the script has done nothing, and
-- the error says so; see engine/errors.py.
local has_written = false
local function write(...)
  if has_written then
    return redis.call(...)
  end
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    error('nothing was written: ' .. answer.err, 0)
  end
  has_written = true
  return answer
end
