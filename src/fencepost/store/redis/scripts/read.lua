-- Run commands as one, and return the time and their answers. ARGV[2] is a list of them.
local answers = { whole(now) }
for place, command in ipairs(cmsgpack.unpack(ARGV[2])) do
  answers[place + 1] = redis.call(unpack(command))
end
return answers
