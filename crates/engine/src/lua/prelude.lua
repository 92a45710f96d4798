-- Older names that scripts use, and functions of the library that keep to the budgets of the machine.
local charge, expired, plain, sorting = __charge, __expired, __plain, __sorting
local concat, find, each, gsub = __concat, __find, __each, __gsub
__charge, __expired, __plain, __sorting, __concat, __find, __each, __gsub = nil, nil, nil, nil, nil, nil, nil, nil
local type, tostring, tonumber_, error, select = type, tostring, tonumber, error, select
local rawget, setmetatable_ = rawget, setmetatable
local pack, unpack_, insert, remove, sort = table.pack, table.unpack, table.insert, table.remove, table.sort

-- Raises what a function reports, at the line that called it.
local function pass(problem, ...)
  if problem then error(problem, expired() and 0 or 2) end
  return ...
end

-- Small sizes are paid for by the instructions around them.
local function pay(bytes)
  if bytes > 64 then
    local problem = charge(bytes)
    if problem then error(problem, 0) end
  end
end

local function text(value, position, name)
  local kind = type(value)
  if kind == 'string' then return value end
  if kind == 'number' then return tostring(value) end
  error("bad argument #" .. position .. " to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
end

table.getn = function(t) return #t end
table.move = nil
function table.concat(t, between, first, last)
  plain(t)
  if type(t) ~= 'table' then error("bad argument #1 to 'concat' (table expected, got " .. type(t) .. ")", 2) end
  return pass(concat(t, between == nil and '' or text(between, 2, 'concat'), first or 1, last or #t))
end
function table.insert(t, ...)
  plain(t)
  if select('#', ...) > 1 and type(t) == 'table' then pay(#t * 4) end
  return insert(t, ...)
end
function table.remove(t, ...)
  plain(t)
  local position = ...
  if position ~= nil and type(t) == 'table' then pay((#t - (tonumber_(position) or 0)) * 4) end
  return remove(t, ...)
end
function table.sort(t, ...)
  plain(t)
  if type(t) == 'table' then
    local problem = sorting(t, (...) ~= nil)
    if problem then error(problem, 0) end
  end
  return sort(t, ...)
end
function table.unpack(t, first, last)
  plain(t)
  if type(t) == 'table' then
    pay(((tonumber_(last) or #t) - (tonumber_(first) or 1)) * 8)
  end
  return unpack_(t, first, last)
end
unpack = table.unpack
loadstring = load
function tonumber(value, ...)
  if type(value) == 'string' then pay(#value) end
  return tonumber_(value, ...)
end
function setmetatable(table, metatable)
  if type(metatable) == 'table' and rawget(metatable, '__gc') ~= nil then error('finalizers are not available', 2) end
  return setmetatable_(table, metatable)
end
local function guard(call)
  return function(...)
    local results = pack(call(...))
    if expired() then error('context deadline exceeded: the script used up its budget', 0) end
    return unpack_(results, 1, results.n)
  end
end
pcall = guard(pcall)
xpcall = guard(xpcall)
if coroutine then coroutine.resume = guard(coroutine.resume) end
if string then
  string.dump = nil
  function string.find(subject, pattern, init, is_plain)
    subject, pattern = text(subject, 1, 'find'), text(pattern, 2, 'find')
    return pass(find(subject, pattern, init, is_plain and true or false, true))
  end
  function string.match(subject, pattern, init)
    subject, pattern = text(subject, 1, 'match'), text(pattern, 2, 'match')
    return pass(find(subject, pattern, init, false, false))
  end
  function string.gmatch(subject, pattern)
    subject, pattern = text(subject, 1, 'gmatch'), text(pattern, 2, 'gmatch')
    local at = 1
    local function found(problem, after, ...)
      if problem then error(problem, expired() and 0 or 2) end
      at = after
      return ...
    end
    return function()
      if at then return found(each(subject, pattern, at)) end
    end
  end
  function string.gsub(subject, pattern, replacement, limit)
    subject, pattern = text(subject, 1, 'gsub'), text(pattern, 2, 'gsub')
    if type(replacement) == 'number' then replacement = tostring(replacement) end
    return pass(gsub(subject, pattern, replacement, limit))
  end
  for _, name in pairs({'lower', 'upper', 'reverse'}) do
    local original = string[name]
    string[name] = function(subject)
      subject = text(subject, 1, name)
      pay(#subject)
      return original(subject)
    end
  end
  local rep, format, byte, sub = string.rep, string.format, string.byte, string.sub
  function string.rep(subject, count, between)
    subject = text(subject, 1, 'rep')
    if between ~= nil then between = text(between, 3, 'rep') end
    if subject == '' and (between == nil or between == '') then return '' end
    pay((#subject + #(between or '')) * (tonumber_(count) or 0))
    return rep(subject, count, between)
  end
  function string.format(template, ...)
    template = text(template, 1, 'format')
    local values = pack(...)
    local size = #template
    for i = 1, values.n do
      local kind = type(values[i])
      if kind == 'table' or kind == 'userdata' then
        values[i] = tostring(values[i])
        kind = type(values[i])
      end
      if kind == 'string' then size = size + #values[i] end
    end
    pay(size)
    return format(template, unpack_(values, 1, values.n))
  end
  function string.byte(subject, first, last)
    subject = text(subject, 1, 'byte')
    if last ~= nil then
      local from, to = tonumber_(first) or 1, tonumber_(last) or 0
      if from < 0 then from = from + #subject + 1 end
      if to < 0 then to = to + #subject + 1 end
      if to > #subject then to = #subject end
      pay((to - from) * 8)
    end
    return byte(subject, first, last)
  end
  function string.sub(subject, ...)
    local result = sub(subject, ...)
    pay(#result)
    return result
  end
end
