-- limit/join: counts joins of one show, and says what becomes of each. Only those that pass are counted.
-- Same as: limit::gcra::decide
-- PARTS: tally
-- KEYS: 1 show, 2 joined, 3.. of each join: its prefixes from the narrowest on and the wait or proof it shows
-- ARGV: 1, 2 the show's interval and tolerance; 3..20 those of the three prefixes: free, wait and far each; 21 counts
--       in `joined` at most; 22.. of each join: prefixes; nothing, claim, wait or proof; its ttl; its network
-- OUT:  (word, first, second) a join; the words: 'pass' left, 0 | 'prove' 0, 0 | 'challenge' wait, used |
--       'too_many' wait, 0 | 'busy' wait, 0 | 'spent' 0, 0. Times are microseconds

-- read
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held, counts = redis.call('MGET', unpack(KEYS)), {}
for k, key in ipairs(KEYS) do
  local free, wait, far = string.match(held[k] or '', '^(%d+) (%d+) (%d+)$')
  counts[key] = counts[key] or
    { free = tonumber(free or 0), wait = tonumber(wait or 0), far = tonumber(far or 0), is_held = held[k] }
end
local show, rates = counts[KEYS[1]], {}
for i = 1, 20 do rates[i] = tonumber(ARGV[i]) end

-- One more: the count after it, and for how long it would not fit.
local function add(count, i)
  local after = math.max(count, now) + rates[i]
  return after, math.max(0, after - now - rates[i + 1])
end

-- decide: each join sees what those before it have left
local out, spent, joined, key = {}, {}, {}, 3
for a = 22, #ARGV, 4 do
  local prefixes, shows, ttl_ms, network = tonumber(ARGV[a]), unpack(ARGV, a + 1, a + 3)
  local all, busy = add(show.far, 1)
  local after, over, used, left = { {}, {}, {} }, { free = 0, wait = 0, far = 0 }, 0, nil
  for p = 1, prefixes do
    local count, too_early = counts[KEYS[key + p - 1]], nil
    for r, rung in ipairs({ 'free', 'wait', 'far' }) do
      after[p][rung], too_early = add(count[rung], 6 * p + 2 * r - 5)
      over[rung] = math.max(over[rung], too_early)
    end
    used = math.max(used, math.min(1000, math.floor((count.far - now) * 1000 / math.max(1, rates[6 * p + 2]))))
  end
  local proof = (shows == 'wait' or shows == 'proof') and KEYS[key + prefixes]
  local word, first, second = 'pass', 0, 0
  if proof and (counts[proof].is_held or spent[proof]) then
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
      local fit = math.floor(math.max(0, rates[6 * p - 2] - math.max(0, count.free - now)) / rates[6 * p - 3])
      left = math.min(left or fit, fit)
    end
    first, joined[network] = left, (joined[network] or 0) + 1
    if proof then spent[proof] = ttl_ms end
  end
  out[#out + 1], out[#out + 2], out[#out + 3] = word, first, second
  key = key + prefixes + (proof and 1 or 0)
end

-- write: a count goes when it is empty; what passed is told by somebody when its minute is over
for k, count in pairs(counts) do
  if count.is_changed then
    local ttl_ms = math.ceil((math.max(count.free, count.wait, count.far) - now) / 1000)
    redis.call('SET', k, string.format('%.0f %.0f %.0f', count.free, count.wait, count.far), 'PX', math.max(1, ttl_ms))
  end
end
tally(KEYS[2], now, joined, tonumber(ARGV[21]))
for proof, ttl_ms in pairs(spent) do redis.call('SET', proof, '1', 'PX', ttl_ms) end
return out
