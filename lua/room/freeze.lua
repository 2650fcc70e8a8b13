-- room/freeze: settles who takes part in the draw: everybody who has a number by now. Asking again
-- gives the same answer.
-- Same as: room::model::opening::freeze
-- PARTS: whole, gaps
-- KEYS: 1 room, 2 seq
-- ARGV: 1 size of the largest draw
-- OUT:  {'frozen', size} | {'not_due'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'draw_size', 'opening',
  'gaps')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local size, issued = maybe(room[4], KEYS[1]), whole(redis.call('GET', KEYS[2]), KEYS[2])
local gaps = read_gaps(room[6], KEYS[1])
local is_due = not size and room[5] == '1'

-- write: an HDEL first, so that a show can open in a full Redis
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
if is_due then
  size = math.min(issued, tonumber(ARGV[1]))
  -- empty places of the draw are no gap of the line any more
  redis.call('HSET', KEYS[1], 'draw_size', size, 'gaps', written_gaps(gaps_behind(gaps, size)))
end
if not size then return { 'not_due' } end
return { 'frozen', size }
