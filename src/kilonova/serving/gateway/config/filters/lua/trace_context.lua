-- Takes the trace context from requests that are not traced, for servers that do not read its flag.

function envoy_on_request(handle)
  local headers = handle:headers()
  local parent = headers:get("traceparent")
  if parent and parent:sub(-2) == "00" then
    headers:remove("traceparent")
  end
end
