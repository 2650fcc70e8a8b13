-- part/trim: lets go of the entries up to and including one.
-- Same as: room::model::ledger::trim
-- `last`: the number of the last entry ever. They are numbered without a hole, so that what stays is a
-- count; an entry of somebody else would count for one that nobody has copied.

local function trim(key, last, through)
  local oldest = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
  if oldest and tonumber(oldest[2][2]) ~= last - redis.call('XLEN', key) + 1 then
    error(key .. ': not all entries are ours')
  end
  redis.call('XTRIM', key, 'MAXLEN', math.max(0, last - through))
end
