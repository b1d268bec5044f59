-- Wake as many idle workers as there are new jobs, each by a word of its own. A worker is idle from
-- a claim that left it with free slots until it is woken; the claim notes which jobs it looks for.
-- One that does not hear the word is gone, and another one is woken. A process that listens and
-- has made no claim hears of every job. All is written by then: one who may not publish has stored
-- the jobs all the same, and workers find them when they poll.
local function serves(terms, queue, type_)
  local wanted = cmsgpack.unpack(terms)
  local function has(names, name)
    if not names then
      return true
    end
    for _, each in ipairs(names) do
      if each == name then
        return true
      end
    end
    return false
  end
  return has(wanted.queues, queue) and has(wanted.types, type_)
end

local function wake(queue, type_, count)
  redis.pcall('PUBLISH', prefix .. 'news\nlines', 'all')
  if redis.call('EXISTS', prefix .. 'sleepers') == 0 then
    return
  end
  local idle = redis.call('HRANDFIELD', prefix .. 'sleepers', 50, 'WITHVALUES')
  for at = 1, #idle, 2 do
    if count <= 0 then
      return
    end
    if serves(idle[at + 1], queue, type_) then
      write('HDEL', prefix .. 'sleepers', idle[at])
      local heard = redis.pcall('PUBLISH', prefix .. 'wake\n' .. idle[at], 'ready')
      if type(heard) == 'number' and heard > 0 then
        count = count - 1
      end
    end
  end
end
