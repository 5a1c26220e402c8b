-- Finds the client of an API key. The digests of keys, with the names of clients, come with the
-- routes, so that a key that is revoked is refused from the next request on.

local MAX_KEY_LENGTH, MAX_CACHED = 1024, 4096

-- Digests of keys that were valid: a key costs its digest once.
local digests, cached = {}, 0

local function find_client(handle, key)
  if #key > MAX_KEY_LENGTH then
    return nil
  end
  local digest = digests[key] or sha256(key)
  local client = handle:filterContext():get(digest)
  if client and not digests[key] then
    if cached >= MAX_CACHED then
      digests, cached = {}, 0
    end
    digests[key], cached = digest, cached + 1
  end
  return client
end

local function refuse(handle, message)
  local kind = handle:headers():get("content-type") or ""
  local is_grpc = kind:sub(1, 16) == "application/grpc"
  handle:respond({
    [":status"] = "401",
    ["content-type"] = is_grpc and "text/plain" or "application/json",
    ["www-authenticate"] = "Bearer",
  }, is_grpc and message or string.format('{"error": "%s"}', message))
end

function envoy_on_request(handle)
  if SETTINGS.tokens and handle:streamInfo():dynamicMetadata():get("envoy.filters.http.jwt_authn") then
    return -- a valid token
  end
  local headers = handle:headers()
  local name = SETTINGS.header
  local key = headers:get(name)
  if not key then
    name = "authorization"
    key = (headers:get(name) or ""):match("^[Bb][Ee][Aa][Rr][Ee][Rr] +(.+)$")
  end
  local client = key and find_client(handle, key)
  if client then
    -- Servers learn the client, not its key.
    headers:remove(name)
    headers:replace("x-kilonova-client", client)
  else
    local problem = key and "the %s is not valid" or "an %s is missing"
    refuse(handle, string.format(problem, SETTINGS.credential))
  end
end
