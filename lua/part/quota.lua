-- part/quota: the exact sliding window. A call counts while now less its stamp is at most the window,
-- both ends included. Goes with part/whole.
-- Same as: room::quota::free_in_ms

-- Calls of a long window are merged into slots.
local function slot_ms(window_ms) return math.max(1, math.floor(window_ms / 1000)) end

local function read_quota(key, window_ms, now)
  local quota = { counted = 0, stamps = {}, calls = {}, stale = {} }
  local kept = redis.call('HGETALL', key)
  for i = 1, #kept, 2 do
    local stamp = whole(kept[i], key)
    if now + slot_ms(window_ms) <= stamp then error(key .. ': a stamp is yet to come') end
    if window_ms < now - stamp then
      table.insert(quota.stale, kept[i])
    else
      local calls = kept[i + 1] == 'burned' and math.huge or whole(kept[i + 1], key) -- a burned window has none left
      table.insert(quota.stamps, stamp)
      quota.calls[stamp], quota.counted = calls, quota.counted + calls
    end
  end
  return quota
end

-- A slot is stamped late: never too generous.
local function spend_quota(key, quota, window_ms, now, calls)
  local slot = slot_ms(window_ms)
  local stamp = now + slot - 1 - now % slot
  if not quota.calls[stamp] then table.insert(quota.stamps, stamp) end
  quota.calls[stamp] = (quota.calls[stamp] or 0) + calls
  quota.counted = quota.counted + calls
  redis.call('HINCRBY', key, stamp, calls)
end

-- When the quota next frees something, or -1.
local function quota_free_in_ms(quota, rate, window_ms, now)
  if rate == 0 then return -1 end
  local counted, free_in_ms = quota.counted, 0
  table.sort(quota.stamps)
  for _, stamp in ipairs(quota.stamps) do
    if counted < rate then break end
    counted = quota.calls[stamp] == math.huge and 0 or counted - quota.calls[stamp]
    free_in_ms = math.max(0, stamp + window_ms + 1 - now)
  end
  return free_in_ms
end
