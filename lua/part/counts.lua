-- part/counts: what is counted of joins under these keys. What is not ours stops the script.
-- Same as: limit::gcra::held
-- `rungs`: where the interval of each is in `rates`; its tolerance comes next

local function foreign(key) error(key .. ' holds something else than ours') end

-- A key that holds no string looks empty to MGET, and to EXISTS it does not.
local function read_counts(keys, now, rates)
  local held, counts, strings = redis.call('MGET', unpack(keys)), { said = {}, now = now, rates = rates }, 0
  for k, key in ipairs(keys) do
    if held[k] then counts.said[key], strings = held[k], strings + 1 end
  end
  if strings < redis.call('EXISTS', unpack(keys)) then
    for _, key in ipairs(keys) do
      if not counts.said[key] and redis.call('EXISTS', key) == 1 then foreign(key) end
    end
  end
  return counts
end

-- More than full is of a clock that was put back.
local function count_of(counts, key, rungs)
  local free, wait, far = 0, 0, 0
  if counts.said[key] then
    free, wait, far = string.match(counts.said[key], '^(%d+) (%d+) (%d+)$')
    if not far or 2 ^ 53 < math.max(free, wait, far) then foreign(key) end
  end
  local count = { free = free + 0, wait = wait + 0, far = far + 0 }
  for rung, i in pairs(rungs) do
    local full = counts.now + counts.rates[i + 1]
    if full < count[rung] then count[rung], count.is_changed = full, true end
  end
  return count
end

local function is_spent(counts, proof)
  local said = counts.said[proof]
  if said and said ~= '1' then foreign(proof) end
  return said
end
