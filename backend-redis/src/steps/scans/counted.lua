-- Around a script, for a test: counts what it does, see `Script::counted`.

local server, commands, elements = redis, 0, 0

local function counting(ask)
  return function(...)
    local answer = ask(...)
    commands = commands + 1
    for _, part in ipairs(type(answer) == 'table' and answer or {}) do
      elements = elements + (type(part) == 'table' and #part or 1)
    end
    return answer
  end
end

local redis = setmetatable({ call = counting(server.call), pcall = counting(server.pcall) }, { __index = server })

local function script()
-- SCRIPT
end

local answer = script()
server.call('RPUSH', 'LIST', 'NAME ' .. commands .. ' ' .. elements)
return answer
