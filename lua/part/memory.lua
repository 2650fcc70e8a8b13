-- part/memory: whether there is memory for anybody new. Writes the clock.
-- Same as: room::model::apply

-- A full Redis takes nothing before something was freed; an HDEL of nothing counts.
local function is_full(key, now, told)
  local said = redis.pcall('HSET', key, 'last_ms', now, 'offset_ms', now - told)
  if type(said) ~= 'table' then return false end
  if string.sub(said.err, 1, 4) ~= 'OOM ' then error(said) end
  redis.call('HDEL', key, 'nothing')
  redis.call('HSET', key, 'last_ms', now, 'offset_ms', now - told)
  return true
end
