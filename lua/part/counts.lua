-- part/counts: what is counted of joins under these keys. What is not ours stops the script.
-- Same as: limit::gcra::held
-- A count stands in `free`, `wait` and `far` at the first place of its key; `rates` has at 6 p - 2, 6 p and
-- 6 p + 2 how full those of a p-th prefix may be. The show is the 0th, and has `far` alone.

local function foreign(key) error(key .. ' holds something else than ours') end

-- From the `first` key on. One that holds no string looks empty to MGET, and to EXISTS it does not.
local function read_counts(keys, first, now, rates)
  local counts = { free = {}, wait = {}, far = {}, changed = {}, at = {}, held = {}, now = now, rates = rates }
  local held, strings = redis.call('MGET', unpack(keys, first)), 0
  for k = first, #keys do
    counts.at[keys[k]], counts.held[k] = counts.at[keys[k]] or k, held[k - first + 1]
    if counts.held[k] then strings = strings + 1 end
  end
  if strings < redis.call('EXISTS', unpack(keys, first)) then
    for k = first, #keys do
      if not counts.held[k] and redis.call('EXISTS', keys[k]) == 1 then foreign(keys[k]) end
    end
  end
  return counts
end

-- More than full is of a clock that was put back.
local function at_most(counts, rung, c, i)
  local full = counts.rates[i] and counts.now + counts.rates[i]
  if full and full < rung[c] then rung[c], counts.changed[c] = full, true end
end

-- Where the count of a p-th prefix stands.
local function count_at(counts, key, p)
  local c, free, wait, far = counts.at[key], 0, 0, 0
  if counts.far[c] then return c end
  if counts.held[c] then
    free, wait, far = string.match(counts.held[c], '^(%d+) (%d+) (%d+)$')
    if not far or 2 ^ 53 < math.max(free, wait, far) then foreign(key) end
  end
  counts.free[c], counts.wait[c], counts.far[c] = free + 0, wait + 0, far + 0
  at_most(counts, counts.free, c, 6 * p - 2)
  at_most(counts, counts.wait, c, 6 * p)
  at_most(counts, counts.far, c, 6 * p + 2)
  return c
end

local function is_spent(counts, proof)
  local said = counts.held[counts.at[proof]]
  if said and said ~= '1' then foreign(proof) end
  return said
end

-- A count goes when it is empty.
local function write_counts(counts, keys)
  for c in pairs(counts.changed) do
    local free, wait, far = counts.free[c], counts.wait[c], counts.far[c]
    local ttl_ms = math.max(1, math.ceil((math.max(free, wait, far) - counts.now) / 1000))
    redis.call('SET', keys[c], string.format('%d %d %d', free, wait, far), 'PX', string.format('%d', ttl_ms))
  end
end
