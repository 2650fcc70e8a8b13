-- limit/join: counts joins of one show, and says what becomes of each. Only those that pass are counted.
-- Same as: limit::gcra::decide
-- PARTS: counts, tally
-- KEYS: 1 joined, 2 show, 3.. of each join: its prefixes from the narrowest on and the wait or proof it shows
-- ARGV: 1, 2 the show's interval and tolerance; 3..20 those of the three prefixes: free, wait and far each; 21 counts
--       in `joined` at most; 22.. of each join: prefixes; nothing, claim, wait or proof; its ttl; its network
-- OUT:  of each join: how many more would pass, where it passes; else {'prove', 0, 0} | {'challenge', wait, used} |
--       {'too_many', wait, 0} | {'busy', wait, 0} | {'spent', 0, 0}. Times are microseconds

-- read
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local max, min, floor, rates = math.max, math.min, math.floor, {}
for i = 1, 20 do rates[i] = tonumber(ARGV[i]) end
local counts = read_counts(KEYS, 2, now, rates)
local free, wait, far, changed = counts.free, counts.wait, counts.far, counts.changed
local tallied, show = read_tally(KEYS[1]), count_at(counts, KEYS[2], 0)

-- One more: the count after it, and for how long it would not fit.
local function add(count, i)
  local after = max(count, now) + rates[i]
  return after, max(0, after - now - rates[i + 1])
end

-- decide: each join sees what those before it have left
local out, spent, joined, key = {}, {}, {}, 3
local after_free, after_wait, after_far = {}, {}, {} -- by prefix
for a = 22, #ARGV, 4 do
  local prefixes, shows, ttl_ms, network = tonumber(ARGV[a]), unpack(ARGV, a + 1, a + 3)
  local all, busy = add(far[show], 1)
  local over_free, over_wait, over_far, used, left, over = 0, 0, 0, 0, nil, nil
  for p = 1, prefixes do
    local c = count_at(counts, KEYS[key + p - 1], p)
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
  if proof and (is_spent(counts, proof) or spent[proof]) then
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
    far[show], changed[show] = all, true
    for p = 1, prefixes do
      local c = count_at(counts, KEYS[key + p - 1], p)
      far[c], changed[c] = after_far[p], true
      if over_free == 0 then free[c] = after_free[p] elseif shows == 'wait' then wait[c] = after_wait[p] end
      local fit = floor(max(0, rates[6 * p - 2] - max(0, free[c] - now)) / rates[6 * p - 3])
      left = min(left or fit, fit)
    end
    joined[network] = (joined[network] or 0) + 1
    if proof then spent[proof] = ttl_ms end
  end
  out[#out + 1] = refused or left
  key = key + prefixes + (proof and 1 or 0)
end

-- write: what passed is told by somebody when its minute is over
write_counts(counts, KEYS)
for proof, ttl_ms in pairs(spent) do redis.call('SET', proof, '1', 'PX', ttl_ms) end
write_tally(KEYS[1], tallied, now, joined, tonumber(ARGV[21]))
return out
