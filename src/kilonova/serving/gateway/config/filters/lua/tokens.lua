-- Charges clients of the OpenAI API for the tokens of their requests, as the server counts them.
--
-- What an answer costs is known when it ends, so clients pay later: each thread notes what they owe,
-- and a request takes that from the bucket of its client, which all threads share, or is refused
-- until the bucket holds it. Until the usage is known, a request is charged for a quarter of the
-- bytes of its body, and a token for each event of a stream: breaking off saves nothing.

local NAMESPACE, MAX_CLIENTS = "kilonova.tokens", 10000
local BYTES_PER_TOKEN = 4

local debts, clients = {}, 0

local function charge(client, tokens)
  if not debts[client] then
    if clients >= MAX_CLIENTS then
      debts, clients = {}, 0
    end
    clients = clients + 1
  end
  debts[client] = math.max(0, (debts[client] or 0) + tokens)
end

local function find_client(handle, headers)
  local name = headers:get("x-kilonova-client")
  if name then
    return name
  end
  local address = handle:streamInfo():downstreamRemoteAddress()
  return address:match("^(.*):%d+$") or address
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path = headers:get(":path") or ""
  if path:sub(1, 4) ~= "/v1/" or headers:get(":method") ~= "POST" then
    return
  end
  local client = find_client(handle, headers)
  local burst = SETTINGS.bursts[client] or SETTINGS.burst
  if not burst then
    return
  end
  local paid = math.min(debts[client] or 0, burst)
  local length = tonumber(headers:get("content-length") or "") or 0
  local estimate = math.ceil(length / BYTES_PER_TOKEN)
  charge(client, estimate - paid)
  local metadata = handle:streamInfo():dynamicMetadata()
  -- An empty bucket refuses, whether something is owed or not.
  metadata:set(NAMESPACE, "hits", math.max(1, paid))
  metadata:set(NAMESPACE, "client", client)
  metadata:set(NAMESPACE, "paid", paid)
  metadata:set(NAMESPACE, "estimate", estimate)
end

-- Charges for a body as it flows.
local function charge_body(handle, client, estimate, is_stream)
  local charged, rest = estimate, ""
  for chunk in handle:bodyChunks() do
    local text = rest .. chunk:getBytes(0, chunk:length())
    local total
    for count in text:gmatch('"total_tokens"%s*:%s*(%d+)[^%d]') do
      total = tonumber(count)
    end
    if total then
      charge(client, total - charged)
      charged = total
    elseif is_stream then
      local _, events = text:sub(#rest + 1):gsub("data: {", "")
      charge(client, events)
      charged = charged + events
    end
    rest = text:sub(-48)
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local noted = handle:streamInfo():dynamicMetadata():get(NAMESPACE)
  local client = noted and noted.client
  if not client then
    return
  end
  if headers:get("x-kilonova-unpaid") then
    headers:remove("x-kilonova-unpaid")
    charge(client, noted.paid - noted.estimate)
    return
  end
  if headers:get(":status") ~= "200" then
    charge(client, -noted.estimate)
    return
  end
  local kind = headers:get("content-type") or ""
  charge_body(handle, client, noted.estimate, kind:sub(1, 17) == "text/event-stream")
end
