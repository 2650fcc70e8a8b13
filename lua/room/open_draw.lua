-- room/open_draw: from now on places are the draw's, and calling begins. Asking again changes nothing.
-- Same as: room::model::opening::open
-- PARTS: whole, enter
-- KEYS: 1 room
-- ARGV: 1 size, 2 seed
-- OUT:  {'now'} | {'before'} | {'refused'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'state', 'draw_seed',
  'draw_size', 'opening', 'draws', 'serving', 'sold_out_at', 'overruled_stock', 'stock_version',
  'restoring_until', 'open_since')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local is = { state = room[4], is_drawn = room[5] ~= '', draws = whole(room[8], KEYS[1]),
  serving = whole(room[9], KEYS[1]), sold_out_at = maybe(room[10], KEYS[1]),
  overruled_stock = maybe(room[11], KEYS[1]), stock_version = maybe(room[12], KEYS[1]),
  restoring_until = maybe(room[13], KEYS[1]), open_since = maybe(room[14], KEYS[1]) }

-- refuse
local word = 'refused'
if maybe(room[6], KEYS[1]) == tonumber(ARGV[1]) then
  if room[5] == ARGV[2] then word = 'before' elseif needs_draw(is) then word = 'now' end
end

-- write: an HDEL first, so that a show can open in a full Redis
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
if word ~= 'now' then return { word } end
is.is_drawn = true
if room[7] == '1' then
  enter(is, now, 'open')
  redis.call('HSET', KEYS[1], entered(is))
end
redis.call('HSET', KEYS[1], 'draw_seed', ARGV[2])
return { word }
