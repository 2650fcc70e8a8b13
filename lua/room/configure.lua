-- room/configure: puts the operator's settings and verb in force.
-- Same as: room::model::schedule::configure
-- PARTS: whole, enter
-- KEYS: 1 room, 2 quota
-- ARGV: 1 version, 2 version of the verb or '', 3 state of the verb or '', 4 window_ms, 5 draws: 1 or 0,
--       6.. fields of the hash that hold the settings, and their values
-- OUT:  {'now'} | {'before'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'version',
  'window_ms', 'verb_version', 'state', 'sold_out_at', 'stock_version', 'overruled_stock',
  'open_since', 'serving', 'draw_seed')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local is_news = whole(room[4], KEYS[1]) < tonumber(ARGV[1])
local verb, to = tonumber(ARGV[2]), ARGV[3]
local says_verb = is_news and verb and whole(room[6], KEYS[1]) < verb
local is_same_window = whole(room[5], KEYS[1]) == tonumber(ARGV[4])
local is = { state = room[7], sold_out_at = maybe(room[8], KEYS[1]), stock_version = maybe(room[9], KEYS[1]),
  overruled_stock = maybe(room[10], KEYS[1]), open_since = maybe(room[11], KEYS[1]),
  serving = whole(room[12], KEYS[1]), is_drawn = room[13] ~= '', draws = tonumber(ARGV[5]) }
redis.call('HMGET', KEYS[2], 'nothing') -- what is no quota stops the script here

-- write: an HDEL first, so that the operator can act in a full Redis
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
if not is_news then return { 'before' } end
if not is_same_window then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], now, 'burned')
end
redis.call('HSET', KEYS[1], 'version', ARGV[1], unpack(ARGV, 6))
if says_verb then
  enter(is, now, to)
  redis.call('HSET', KEYS[1], 'verb_version', verb, 'verb_at', now, entered(is))
end
return { 'now' }
