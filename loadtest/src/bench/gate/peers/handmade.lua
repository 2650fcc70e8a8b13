-- The handmade room: a number by the script that everybody writes first, a signed cookie, and a ticket
-- that is looked up in Redis at every request. No limits, no position, no second gateway's view of it:
-- less than what it is measured against.
local room = {}

local SECRET = "a secret of the handmade room"

local function ask(...)
  local socket = ngx.socket.tcp()
  socket:settimeout(1000)
  local open = socket:connect("REDIS_HOST", REDIS_PORT)
  if not open then return ngx.exit(503) end
  local count = select("#", ...)
  local words = { "*" .. count .. "\r\n" }
  for i = 1, count do
    local word = tostring(select(i, ...))
    words[i + 1] = "$" .. #word .. "\r\n" .. word .. "\r\n"
  end
  socket:send(words)
  local line = socket:receive()
  if not line then return ngx.exit(503) end
  local kind, rest = line:sub(1, 1), line:sub(2)
  local answer
  if kind == ":" then
    answer = rest
  elseif kind == "$" and rest ~= "-1" then
    answer = socket:receive(tonumber(rest))
    socket:receive(2)
  end
  socket:setkeepalive(60000, 512)
  return answer
end

local function sign(text)
  return ngx.encode_base64(ngx.hmac_sha1(SECRET, text))
end

local function say(status, body)
  ngx.status = status
  ngx.header["Content-Length"] = #body
  ngx.print(body)
end

function room.join()
  local fan = ngx.var.request_id
  local number = ask("EVALSHA", "SCRIPT", 2, "handmade:seq", "handmade:queue", fan)
  local pass = fan .. "." .. number
  pass = pass .. "." .. sign(pass)
  ngx.header["Set-Cookie"] = "pass=" .. pass .. "; Path=/; HttpOnly; SameSite=Lax"
  ngx.header["Cache-Control"] = "no-store"
  say(201, string.format('{"fan":"%s","number":%s,"pass":"%s"}', fan, number, pass))
end

-- For the bench: a fan whose turn it is.
function room.admit()
  local fan = ngx.var.request_id
  ask("ZADD", "handmade:admissions", (ngx.now() + 3600) * 1000, fan)
  say(200, fan .. "." .. sign(fan))
end

function room.check()
  local fan, signature = (ngx.var.cookie_ticket or ""):match("^(%x+)%.(.+)$")
  if not fan or sign(fan) ~= signature then return ngx.exit(401) end
  local live = ask("ZSCORE", "handmade:admissions", fan)
  if not live or tonumber(live) < ngx.now() * 1000 then return ngx.exit(401) end
end

return room
