// Rates in the functions: core/flow/rate.ts, which says why, in the same steps, so that both count to the same number.

import { lua } from './lua.js'

export const RATE_LUA: string = lua`
local rates = {}
-- The bucket nobody has taken from.
local FULL = -1 / 0
local ROUNDING_MS, OWED_MAX_MS = 0.02, 86400000

function rates.fillMs(rate) return (rate.burst * rate.perMs) / rate.limit end

local function bucketNow(rate, emptyAt, t)
  if emptyAt - rates.fillMs(rate) > t + OWED_MAX_MS + 3600000 then return FULL end
  return emptyAt
end

local function tokensAt(rate, emptyAt, t)
  return math.min(rate.burst, ((t - bucketNow(rate, emptyAt, t)) * rate.limit) / rate.perMs)
end

-- How many starts of price 1 may go now.
function rates.startsAt(rate, emptyAt, t)
  local rounding = (ROUNDING_MS * rate.limit) / rate.perMs
  return math.max(0, math.floor(tokensAt(rate, emptyAt, t) + rounding))
end

function rates.priceOf(rate, cost) return rate.counts == 'cost' and cost or 1 end

-- The bucket after a price was taken; a negative one gives back.
function rates.draw(rate, emptyAt, price, t)
  local from, fill = bucketNow(rate, emptyAt, t), rates.fillMs(rate)
  if price > 0 then from = math.max(from, t - fill) end
  return math.min(from + (price * rate.perMs) / rate.limit, t + fill + OWED_MAX_MS)
end

-- How long until a start of this price may go; 0 when it may go now.
function rates.waitFor(rate, emptyAt, price, t)
  local dueIn = ((math.min(price, rate.burst) - tokensAt(rate, emptyAt, t)) * rate.perMs) / rate.limit
  if dueIn <= ROUNDING_MS then return 0 end
  return math.max(1, math.ceil(dueIn - ROUNDING_MS))
end

-- A bucket as a field: every digit counts, and a full one has none.
function rates.field(emptyAt) return emptyAt ~= FULL and string.format('%.17g', emptyAt) or false end
`
