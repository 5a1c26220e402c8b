-- Chooses the route again, after the client has its name.

function envoy_on_request(handle)
  handle:clearRouteCache()
end
