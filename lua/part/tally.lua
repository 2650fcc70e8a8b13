-- part/tally: counts joins by minute and network; what finds no room counts for the rest of its minute.
-- Same as: limit::tally::add
-- `joined`: how many joined now, by network; `most`: how many counts there may be.

-- How many there are. What is not ours stops the script.
local function read_tally(key)
  local tallied = redis.pcall('ZCARD', key)
  if type(tallied) ~= 'number' then foreign(key) end
  return tallied
end

local function write_tally(key, tallied, now_us, joined, most)
  local minute = string.format('%d ', math.floor(now_us / 60000000))
  local room = most - tallied
  for network, joins in pairs(joined) do
    local is_full = room <= 0 and not redis.call('ZSCORE', key, minute .. network)
    local member = is_full and minute or minute .. network
    local all = tonumber(redis.call('ZADD', key, 'INCR', joins, member))
    room = all == joins and room - 1 or room
  end
end
