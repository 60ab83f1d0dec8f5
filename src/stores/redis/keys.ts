// Idempotency keys: who holds one, and for how long. keys:<queue> has "<id> <expires> <next>" for each key; keyx has the keys with a
// time by their end, for prune.

import { lua } from './lua.js'

export const KEYS_LUA: string = lua`
-- Who keeps a job with this key away, or nil.
local function keyHolder(work, queue, key)
  if key == '-' then return nil end
  local value = getField(work, 'keys:' .. queue, key)
  if not value then return nil end
  local id, expires, following = string.match(value, '^(%S+) (%S+) (%S+)$')
  if expires ~= '-' and work.t >= tonumber(expires) then return nil end
  return { id = id, expires = expires, following = following ~= '-' and following or nil }
end

local function setKey(work, queue, key, holder)
  setField(work, 'keys:' .. queue, key, holder.id .. ' ' .. holder.expires .. ' ' .. (holder.following or '-'))
  local hasEnd = holder.expires ~= '-'
  setScore(work, 'keyx', queue .. ' ' .. key, hasEnd and tonumber(holder.expires) or false)
end

-- Gives the job its key, from now.
local function takeKey(work, job)
  if job.key == '-' then return end
  local expires = job.ttl == '-' and '-' or text(work.t + tonumber(job.ttl))
  setKey(work, job.queue, job.key, { id = job.id, expires = expires })
end

local function passKeyOn(work, queue, key, expires, following)
  if following == '-' then
    setField(work, 'keys:' .. queue, key, false)
    setScore(work, 'keyx', queue .. ' ' .. key, false)
  else
    setKey(work, queue, key, { id = following, expires = expires })
  end
end

-- Frees the key of a finished job, unless the key lasts for a time or another job has taken it since. A successor gets it.
local function freeKey(work, job)
  local value = job.key ~= '-' and getField(work, 'keys:' .. job.queue, job.key)
  if not value then return end
  local id, expires, following = string.match(value, '^(%S+) (%S+) (%S+)$')
  if following == job.id then
    setKey(work, job.queue, job.key, { id = id, expires = expires })
  elseif id == job.id and expires == '-' then
    passKeyOn(work, job.queue, job.key, expires, following)
  end
end

-- Frees the key of a job that is deleted, also one that lasts for a time.
local function releaseKey(work, job)
  local value = job.key ~= '-' and getField(work, 'keys:' .. job.queue, job.key)
  if not value then return end
  local id, expires, following = string.match(value, '^(%S+) (%S+) (%S+)$')
  if id == job.id then passKeyOn(work, job.queue, job.key, expires, following) end
end
`
