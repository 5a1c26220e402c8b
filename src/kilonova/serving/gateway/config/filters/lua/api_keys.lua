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

local function get_bearer(headers)
  return (headers:get("authorization") or ""):match("^[Bb][Ee][Aa][Rr][Ee][Rr] +(.+)$")
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
    handle:headers():remove(SETTINGS.header) -- a valid token, which was removed
    return
  end
  local headers = handle:headers()
  local bearer = get_bearer(headers)
  local key = headers:get(SETTINGS.header)
  if not key or SETTINGS.header == "authorization" then
    key = bearer or key
  end
  local client = key and find_client(handle, key)
  if client then
    -- Servers learn the client, not its key: also if it is sent twice, or beside a token.
    headers:remove(SETTINGS.header)
    if SETTINGS.tokens or bearer and find_client(handle, bearer) then
      headers:remove("authorization")
    end
    headers:replace("x-kilonova-client", client)
  else
    local problem = key and "the %s is not valid" or "an %s is missing"
    refuse(handle, string.format(problem, SETTINGS.credential))
  end
end
