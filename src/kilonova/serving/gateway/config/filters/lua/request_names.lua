-- Names what a request is for, in headers by which routes and hashes choose: the model, and the
-- beginning of a prompt. The path has the model of KServe's v2 protocol over HTTP; gRPC messages
-- were read by the filter before this one; only bodies of OpenAI requests are read here.

local PROMPT_KEYS = { messages = true, prompt = true, input = true }
local FIELDS = "envoy.filters.http.grpc_field_extraction"
-- Of a name, in bytes: 253 characters.
local MAX_MODEL_LENGTH = 4 * 253
local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function encode_utf8(code)
  if code < 0x80 then
    return string.char(code)
  end
  local last = 0x80 + code % 64
  if code < 0x800 then
    return string.char(0xC0 + math.floor(code / 64), last)
  end
  local third = 0x80 + math.floor(code / 64) % 64
  if code < 0x10000 then
    return string.char(0xE0 + math.floor(code / 4096), third, last)
  end
  local second = 0x80 + math.floor(code / 4096) % 64
  return string.char(0xF0 + math.floor(code / 262144), second, third, last)
end

-- The text of a string of JSON. Many clients escape all that is not ASCII.
local function unescape(text)
  local high
  return (text:gsub("\\(.)(%x?%x?%x?%x?)", function(kind, digits)
    if kind ~= "u" or #digits < 4 then
      return (ESCAPES[kind] or kind) .. digits
    end
    local code = tonumber(digits, 16)
    if code >= 0xD800 and code < 0xDC00 then
      high = code -- the other half of the character is next
      return ""
    end
    if high and code >= 0xDC00 and code < 0xE000 then
      code = 0x10000 + (high - 0xD800) * 0x400 + code - 0xDC00
    end
    high = nil
    return encode_utf8(code)
  end))
end

-- The position after the string that opens at `from`. (A plain `find` is far faster than one by a
-- pattern, and prompts are long.)
local function skip_string(text, from)
  local at = from
  while true do
    at = text:find('"', at + 1, true)
    if not at then
      return nil
    end
    local before = at - 1
    while text:byte(before) == 92 do
      before = before - 1
    end
    if (at - 1 - before) % 2 == 0 then
      return at + 1
    end
  end
end

-- The position after the value that begins at `from`.
local function skip_value(text, from)
  local first = text:byte(from)
  if first == 34 then
    return skip_string(text, from)
  end
  if first ~= 123 and first ~= 91 then
    return text:find("[,}%]%s]", from)
  end
  local depth, at = 0, from
  while true do
    at = text:find('["{}%[%]]', at)
    if not at then
      return nil
    end
    local byte = text:byte(at)
    if byte == 34 then
      at = skip_string(text, at)
      if not at then
        return nil
      end
    else
      depth = depth + ((byte == 123 or byte == 91) and 1 or -1)
      at = at + 1
      if depth == 0 then
        return at
      end
    end
  end
end

-- The model, and where the prompt begins, among the keys of the outermost object.
local function scan_object(text, wants_prompt)
  local at = text:find("{", 1, true)
  local model, prompt
  while at do
    local key_from = text:find('"', at, true)
    local key_to = key_from and skip_string(text, key_from)
    local from = key_to and text:find("[^%s:]", key_to)
    if not from then
      break
    end
    local key = text:sub(key_from + 1, key_to - 2)
    if PROMPT_KEYS[key] then
      prompt = prompt or from
    end
    if model and (prompt or not wants_prompt) then
      break
    end
    at = skip_value(text, from)
    if key == "model" and at and text:byte(from) == 34 then
      model = unescape(text:sub(from + 1, at - 2))
    end
    if model and (prompt or not wants_prompt) then
      break
    end
    at = at and text:find("[^%s,]", at)
    if at and text:byte(at) == 125 then
      break
    end
  end
  return model, prompt
end

-- FNV-1a.
local function hash(text, from, to)
  local value = 2166136261
  for i = from, math.min(to, #text) do
    value = bit.bxor(value, text:byte(i))
    -- Multiply by 16777619 in 32 bits: doubles have 53.
    value = bit.tobit(bit.lshift(value, 24) + value * 403)
  end
  return bit.tohex(value)
end

local function read_json(handle)
  local body = handle:body()
  if not body then
    return nil
  end
  local text = body:getBytes(0, body:length())
  local length = SETTINGS.prompt_length
  local model, prompt = scan_object(text, length > 0)
  if prompt and length > 0 then
    handle:headers():replace("x-kilonova-prompt", hash(text, prompt, prompt + length - 1))
  end
  return model
end

local function find_model(handle)
  local headers = handle:headers()
  local kind = headers:get("content-type") or ""
  if kind:sub(1, 16) == "application/grpc" then
    local fields = handle:streamInfo():dynamicMetadata():get(FIELDS)
    for _, values in pairs(fields or {}) do
      return values[1]
    end
    return nil
  end
  local path = headers:get(":path") or ""
  local model = path:match("^/v2/models/([^/?]+)")
  if model then
    return (model:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end))
  end
  if path:sub(1, 4) == "/v1/" and kind:sub(1, 16) == "application/json" then
    return read_json(handle)
  end
  return nil
end

function envoy_on_request(handle)
  local model = find_model(handle)
  -- A name that is no value of a header is no name of a model either.
  if model and #model <= MAX_MODEL_LENGTH and not model:find("[%c]") then
    -- Headers from before a body was waited for are no longer valid.
    handle:headers():replace("x-kilonova-model", model)
    if SETTINGS.has_placement then
      handle:streamInfo():dynamicMetadata():set("envoy.lb", "models", model)
    end
  end
  handle:clearRouteCache()
end
