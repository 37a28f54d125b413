-- Makes the calls in standard input, a line each, with the program in descriptor 4; descriptor 3 takes a line per call.
do
  local open, exit, load, pcall, error, tostring, type, pairs = io.open, os.exit, load, pcall, error, tostring, type, pairs
  local find, sub, byte, char, format, match = string.find, string.sub, string.byte, string.char, string.format, string.match
  local concat, tonumber, gsub, len, from_code, kind_of = table.concat, tonumber, string.gsub, utf8.len, utf8.char, math.type
  local pack, unpack = table.pack, table.unpack
  local stderr, stdout, answers, entry, in_place, told = io.stderr, io.stdout, open("/proc/self/fd/3", "w")
  local words = {["true"] = true, ["false"] = false, n = "\n", t = "\t", r = "\r", b = "\b", f = "\f"}

  local function parse(text, at)
    local first = sub(text, at, at)
    if first == '"' then
      local last = at
      repeat last = find(text, '["\\]', last + 1); local ends = sub(text, last, last) == '"'; last = ends and last or last + 1 until ends
      local value = gsub(sub(text, at + 1, last - 1), "\\u(d[89ab]%x%x)\\u(d[c-f]%x%x)", function(high, low)
        return from_code(0x10000 + (tonumber(high, 16) - 0xd800) * 1024 + tonumber(low, 16) - 0xdc00)
      end)
      value = gsub(value, "\\(.)(%x?%x?%x?%x?)", function(kind, code)
        return kind == "u" and from_code(tonumber(code, 16)) or (words[kind] or kind) .. code
      end)
      return value, last + 1
    elseif first == "[" or first == "{" then
      local value, count, key = {}, 0, nil
      at = at + 1
      while not find(text, "^[%]}]", at) do
        count = count + 1
        if first == "{" then key, at = parse(text, at); at = match(text, "^:%s*()", at) else key = count end
        value[key], at = parse(text, at)
        at = match(text, "^,?%s*()", at)
      end
      return value, at + 1, count
    end
    local word, after = match(text, "^([%w.+-]+)()", at)
    if words[word] ~= nil then return words[word], after end
    return tonumber(word), after
  end

  local function quote(text)
    if not len(text) then error("NotCarried", 0) end
    return '"' .. gsub(text, '[%c"\\\x7f]', function(one) return format("\\u%04x", byte(one)) end) .. '"'
  end

  local function write(value, depth)
    local kind = type(value)
    if kind == "nil" then return "null" end
    if kind == "boolean" then return tostring(value) end
    if kind == "string" then return quote(value) end
    if kind == "number" then
      if value ~= value then return "NaN" end
      if value == 1 / 0 or value == -1 / 0 then return value > 0 and "Infinity" or "-Infinity" end
      return kind_of(value) == "integer" and format("%d", value) or format("%.17g", value)
    end
    if kind ~= "table" or depth == 0 then error("NotCarried", 0) end
    local parts, count = {}, 0
    for _ in next, value do count = count + 1 end
    if count == #value then
      for index = 1, count do parts[index] = write(value[index], depth - 1) end
      return "[" .. concat(parts, ",") .. "]"
    end
    for key, item in next, value do parts[#parts + 1] = quote(tostring(key)) .. ":" .. write(item, depth - 1) end
    return "{" .. concat(parts, ",") .. "}"
  end

  local function answer(line) answers:write(line, "\n"); answers:flush() end

  local header, calls = io.read("l"), {}
  entry, in_place = match(header, "^(%S+) (%d)")
  for line in io.lines() do calls[#calls + 1] = line end
  local source, built_in = gsub(open("/proc/self/fd/4"):read("a"), "^#[^\n]*", ""), _G[entry]
  local chunk, problem = load(source .. "\nreturn " .. entry, "@program.lua")  -- which may be local
  if not chunk then chunk, problem = load(source, "@program.lua") end
  if not chunk then stderr:write(problem, "\n"); exit(1) end
  local fine, found = pcall(chunk)
  if not fine then stderr:write(tostring(found), "\n"); exit(1) end
  if type(found) == "table" then found = found[entry] or found end  -- of a file that returns its functions
  found = found or _G[entry]
  if found == built_in then found = nil end
  answer("{}")
  for _, call in ipairs(calls) do
    local values, _, count = parse(call, 1)
    local results = pack(pcall(function() return (found or error("the program defines no " .. entry, 0))(unpack(values, 1, count)) end))
    if results[1] then
      if in_place == "1" then results = {true, values[1], n = 2} end
      local is_carried, line = pcall(function()
        local parts = {write(results[2], 100)}
        for index = 3, results.n do parts[index - 1] = write(results[index], 100) end
        return concat(parts, ",")
      end)
      answer(is_carried and "[" .. line .. "]" or '{"types":["NotCarried"],"message":"no JSON"}')
    else
      answer('{"types":[]}')
      if not told then told = true; stderr:write(tostring(results[2]), "\n") end
    end
  end
  stdout:flush()
  exit(0)
end
