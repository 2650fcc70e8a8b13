-- limit/join: counts joins of one show, and says what becomes of each. Only those that pass are counted.
-- Same as: limit::gcra::decide
-- PARTS: counts
-- KEYS: 1 show, 2.. of each join: its prefixes from the narrowest on and the wait or proof that it shows
-- ARGV: 1, 2 the show's interval and tolerance; 3..20 those of the three prefixes: free, wait and far each;
--       21.. of each join: how many prefixes it has; nothing, claim, wait or proof; how long that is remembered
-- OUT:  (word, first, second) a join; the words: 'pass' left, 0 | 'prove' 0, 0 | 'challenge' wait, used |
--       'too_many' wait, 0 | 'busy' wait, 0 | 'spent' 0, 0. Times are microseconds

-- read
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local rates, at, counts = {}, {}, {}
for i = 1, 20 do rates[i] = tonumber(ARGV[i]) end
for p = 1, 3 do at[p] = { free = 6 * p - 3, wait = 6 * p - 1, far = 6 * p + 1 } end
local held = read_counts(KEYS, now, rates)
local show = count_of(held, KEYS[1], { far = 1 })
counts[KEYS[1]] = show

-- One more: the count after it, and for how long it would not fit.
local function add(count, i)
  local after = math.max(count, now) + rates[i]
  return after, math.max(0, after - now - rates[i + 1])
end

-- decide: each join sees what those before it have left
local out, spent, key = {}, {}, 2
for a = 21, #ARGV, 3 do
  local prefixes, shows, ttl_ms = tonumber(ARGV[a]), ARGV[a + 1], tonumber(ARGV[a + 2])
  local all, busy = add(show.far, 1)
  local after, over, used, left = {}, { free = 0, wait = 0, far = 0 }, 0, nil
  for p = 1, prefixes do
    local name, too_early = KEYS[key + p - 1], nil
    local count = counts[name] or count_of(held, name, at[p])
    counts[name], after[p] = count, {}
    for rung, i in pairs(at[p]) do
      after[p][rung], too_early = add(count[rung], i)
      over[rung] = math.max(over[rung], too_early)
    end
    local full = math.floor(math.max(0, count.far - now) * 1000 / math.max(1, rates[at[p].far + 1]))
    used = math.max(used, math.min(1000, full))
  end
  local proof = (shows == 'wait' or shows == 'proof') and KEYS[key + prefixes]
  local word, first, second = 'pass', 0, 0
  if proof and (is_spent(held, proof) or spent[proof]) then
    word = 'spent'
  elseif 0 < busy then
    word, first = 'busy', busy
  elseif 0 < over.far then
    word, first = 'too_many', over.far
  elseif shows == 'claim' then
    word = 'prove'
  elseif 0 < over.free and (shows == 'nothing' or shows == 'wait' and 0 < over.wait) then
    word, first, second = 'challenge', shows == 'wait' and over.wait or over.free, used
  else
    show.far, show.is_changed = all, true
    local fills = over.free == 0 and 'free' or shows == 'wait' and 'wait'
    for p = 1, prefixes do
      local count = counts[KEYS[key + p - 1]]
      count.far, count.is_changed = after[p].far, true
      if fills then count[fills] = after[p][fills] end
      local fit = math.floor(math.max(0, rates[at[p].free + 1] - math.max(0, count.free - now)) / rates[at[p].free])
      left = math.min(left or fit, fit)
    end
    first = left
    if proof then spent[proof] = ttl_ms end
  end
  out[#out + 1], out[#out + 2], out[#out + 3] = word, first, second
  key = key + prefixes + (proof and 1 or 0)
end

-- write: a count goes when it is empty
for k, count in pairs(counts) do
  if count.is_changed then
    local ttl_ms = math.ceil((math.max(count.free, count.wait, count.far) - now) / 1000)
    redis.call('SET', k, string.format('%.0f %.0f %.0f', count.free, count.wait, count.far), 'PX', math.max(1, ttl_ms))
  end
end
for proof, ttl_ms in pairs(spent) do redis.call('SET', proof, '1', 'PX', ttl_ms) end
return out
