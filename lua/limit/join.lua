-- limit/join: counts joins of one show, and says what becomes of each. Only those that pass are counted.
-- Same as: limit::gcra::decide
-- KEYS: 1 show, 2.. of each join: its prefixes from the narrowest on and the wait or proof that it shows
-- ARGV: 1, 2 the show's interval and tolerance; 3..20 those of the three prefixes: free, wait and far each;
--       21.. of each join: how many prefixes it has; nothing, claim, wait or proof; how long that is remembered
-- OUT:  of each join: how many more would pass, where it passes; else {'prove', 0, 0} | {'challenge', wait, used} |
--       {'too_many', wait, 0} | {'busy', wait, 0} | {'spent', 0, 0}. Times are microseconds

-- read: a count is known by the first key of its name
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local max, min, floor = math.max, math.min, math.floor
local held, at, rates, free, wait, far = redis.call('MGET', unpack(KEYS)), {}, {}, {}, {}, {}
for k, key in ipairs(KEYS) do
  if not at[key] then
    at[key], free[k], wait[k], far[k] = k, 0, 0, 0
    local is_free, is_wait, is_far = string.match(held[k] or '', '^(%d+) (%d+) (%d+)$')
    if is_far then free[k], wait[k], far[k] = tonumber(is_free), tonumber(is_wait), tonumber(is_far) end
  end
end
for i = 1, 20 do rates[i] = tonumber(ARGV[i]) end

-- One more: the count after it, and for how long it would not fit.
local function add(count, i)
  local after = max(count, now) + rates[i]
  return after, max(0, after - now - rates[i + 1])
end

-- decide: each join sees what those before it have left
local out, changed, spent, key = {}, {}, {}, 2
local after_free, after_wait, after_far = {}, {}, {} -- by prefix
for a = 21, #ARGV, 3 do
  local prefixes, shows, ttl_ms = tonumber(ARGV[a]), ARGV[a + 1], tonumber(ARGV[a + 2])
  local all, busy = add(far[1], 1)
  local over_free, over_wait, over_far, used, left, over = 0, 0, 0, 0, nil, nil
  for p = 1, prefixes do
    local c = at[KEYS[key + p - 1]]
    after_free[p], over = add(free[c], 6 * p - 3)
    over_free = max(over_free, over)
    after_wait[p], over = add(wait[c], 6 * p - 1)
    over_wait = max(over_wait, over)
    after_far[p], over = add(far[c], 6 * p + 1)
    over_far = max(over_far, over)
    used = max(used, min(1000, floor(max(0, far[c] - now) * 1000 / max(1, rates[6 * p + 2]))))
  end
  local proof = (shows == 'wait' or shows == 'proof') and KEYS[key + prefixes]
  local refused
  if proof and (held[at[proof]] or spent[proof]) then
    refused = { 'spent', 0, 0 }
  elseif 0 < busy then
    refused = { 'busy', busy, 0 }
  elseif 0 < over_far then
    refused = { 'too_many', over_far, 0 }
  elseif shows == 'claim' then
    refused = { 'prove', 0, 0 }
  elseif 0 < over_free and (shows == 'nothing' or shows == 'wait' and 0 < over_wait) then
    refused = { 'challenge', shows == 'wait' and over_wait or over_free, used }
  else
    far[1], changed[1] = all, true
    for p = 1, prefixes do
      local c = at[KEYS[key + p - 1]]
      far[c], changed[c] = after_far[p], true
      if over_free == 0 then free[c] = after_free[p] elseif shows == 'wait' then wait[c] = after_wait[p] end
      local fit = floor(max(0, rates[6 * p - 2] - max(0, free[c] - now)) / rates[6 * p - 3])
      left = min(left or fit, fit)
    end
    if proof then spent[proof] = ttl_ms end
  end
  out[#out + 1] = refused or left
  key = key + prefixes + (proof and 1 or 0)
end

-- write: a count goes when it is empty
for c in pairs(changed) do
  local ttl_ms = math.ceil((max(free[c], wait[c], far[c]) - now) / 1000)
  redis.call('SET', KEYS[c], string.format('%.0f %.0f %.0f', free[c], wait[c], far[c]), 'PX', max(1, ttl_ms))
end
for proof, ttl_ms in pairs(spent) do redis.call('SET', proof, '1', 'PX', ttl_ms) end
return out
