-- limit/join: counts joins of one show, and says what becomes of each. Only those that pass are counted.
-- Same as: limit::gcra::decide
-- KEYS: 1 show, 2.. of each join: its prefixes from the narrowest on and the proof that it shows
-- ARGV: 1, 2 the show's interval and tolerance; 3..14 those of the three prefixes, free and far each;
--       15.. of each join: how many prefixes it has, and for how long its proof is remembered, or 0
-- OUT:  (word, first, second) a join; the words: 'pass' left, 0 | 'challenge' wait, used |
--       'too_many' wait, 0 | 'busy' wait, 0 | 'spent' 0, 0. Times are microseconds

-- read
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held, counts = redis.call('MGET', unpack(KEYS)), {}
for k, key in ipairs(KEYS) do
  local free, far = string.match(held[k] or '', '^(%d+) (%d+)$')
  counts[key] = counts[key] or { free = tonumber(free or 0), far = tonumber(far or 0), is_held = held[k] }
end
local show, rates = counts[KEYS[1]], {}
for i = 1, 14 do rates[i] = tonumber(ARGV[i]) end

-- One more: the count after it, and for how long it would not fit.
local function add(count, i)
  local after = math.max(count, now) + rates[i]
  return after, math.max(0, after - now - rates[i + 1])
end

-- decide: each join sees what those before it have left
local out, spent, key = {}, {}, 2
for a = 15, #ARGV, 2 do
  local prefixes, ttl_ms = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  local all, busy = add(show.far, 1)
  local free, far, free_wait, far_wait, used, left = {}, {}, 0, 0, 0, nil
  for p = 1, prefixes do
    local count, rate, wait = counts[KEYS[key + p - 1]], 4 * p - 1, nil
    free[p], wait = add(count.free, rate)
    free_wait = math.max(free_wait, wait)
    far[p], wait = add(count.far, rate + 2)
    far_wait = math.max(far_wait, wait)
    local full = math.floor(math.max(0, count.far - now) * 1000 / math.max(1, rates[rate + 3]))
    used = math.max(used, math.min(1000, full))
  end
  local proof = 0 < ttl_ms and KEYS[key + prefixes]
  local word, first, second = 'pass', 0, 0
  if proof and (counts[proof].is_held or spent[proof]) then
    word = 'spent'
  elseif 0 < busy then
    word, first = 'busy', busy
  elseif 0 < far_wait then
    word, first = 'too_many', far_wait
  elseif 0 < free_wait and not proof then
    word, first, second = 'challenge', free_wait, used
  else
    show.far, show.is_changed = all, true
    for p = 1, prefixes do
      local count, rate = counts[KEYS[key + p - 1]], 4 * p - 1
      count.far, count.is_changed = far[p], true
      if free_wait == 0 then count.free = free[p] end
      local fit = math.floor(math.max(0, rates[rate + 1] - math.max(0, count.free - now)) / rates[rate])
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
    local ttl_ms = math.ceil((math.max(count.free, count.far) - now) / 1000)
    redis.call('SET', k, string.format('%.0f %.0f', count.free, count.far), 'PX', math.max(1, ttl_ms))
  end
end
for proof, ttl_ms in pairs(spent) do redis.call('SET', proof, '1', 'PX', ttl_ms) end
return out
