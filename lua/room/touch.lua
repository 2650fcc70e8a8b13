-- room/touch: fans near their turn show that they are there.
-- Same as: room::model::presence::touch
-- PARTS: whole
-- KEYS: 1 room, 2 queue, 3 seen
-- ARGV: 1.. the fans
-- OUT:  {'touched', word a fan} | {'unfenced'}; the words: 'waiting' | 'elsewhere'

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'require_presence')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local asks, out, scores = whole(room[4], KEYS[1]) == 1, { 'touched' }, {}
for i, number in ipairs(ARGV[1] and redis.call('ZMSCORE', KEYS[2], unpack(ARGV)) or {}) do
  out[#out + 1] = number and 'waiting' or 'elsewhere'
  if number and asks then
    scores[#scores + 1], scores[#scores + 2] = now, ARGV[i]
  end
end

-- write: an HDEL first, so that nobody becomes absent in a full Redis
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
if 0 < #scores then redis.call('ZADD', KEYS[3], unpack(scores)) end
return out
