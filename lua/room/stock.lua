-- room/stock: what the shop has left. The same version later says that it is still true.
-- Same as: room::model::schedule::tell_stock
-- PARTS: whole, enter
-- KEYS: 1 room
-- ARGV: 1 version, 2 free, 3 held, 4 sold, 5 as_of
-- OUT:  {'done'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'stock_version',
  'stock_as_of', 'state', 'overruled_stock', 'sold_out_at')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local version, as_of = tonumber(ARGV[1]), tonumber(ARGV[5])
local known, known_as_of = maybe(room[4], KEYS[1]), maybe(room[5], KEYS[1])
local is_news = not known or known < version or known == version and known_as_of < as_of
local overruled, sold_out_at = maybe(room[7], KEYS[1]), maybe(room[8], KEYS[1])
local is_sold_out = is_news and room[6] == 'open' and tonumber(ARGV[2]) == 0
  and tonumber(ARGV[3]) == 0 and (not overruled or overruled < version)

-- write: an HDEL first, so that the news arrives in a full Redis
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
if not is_news then return { 'done' } end
redis.call('HSET', KEYS[1], 'stock_version', ARGV[1], 'stock_free', ARGV[2], 'stock_held', ARGV[3],
  'stock_sold', ARGV[4], 'stock_as_of', ARGV[5])
if is_sold_out then
  local is = { state = 'open', overruled_stock = overruled, sold_out_at = sold_out_at }
  enter(is, now, 'sold_out')
  redis.call('HSET', KEYS[1], entered(is))
end
return { 'done' }
