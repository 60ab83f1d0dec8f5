// Every function, joined into one library of Redis Functions. Its name has the layout of the keys and a hash of its text, so that two
// versions of Holdfast on one server each call their own. A person can read it with `redis-cli FUNCTION LIST WITHCODE`.

import { createHash } from 'node:crypto'
import { API_KEYS } from './api-keys.js'
import { AUDIT } from './audit.js'
import { BULKS } from './bulks.js'
import { CANCEL } from './cancel.js'
import { CHAINS_LUA } from './chains.js'
import { CHUNKS_LUA } from './chunks.js'
import { CLAIM } from './claim.js'
import { ENDINGS } from './endings.js'
import { ENQUEUE } from './enqueue.js'
import { EXPIRED } from './expired.js'
import { EXTEND } from './extend.js'
import { GET } from './get.js'
import { JOBS_LUA } from './jobs.js'
import { KEYS_LUA } from './keys.js'
import { LIST } from './list.js'
import { lua } from './lua.js'
import { MOVES_LUA } from './moves.js'
import { NOTE } from './note.js'
import { PROMOTE } from './promote.js'
import { PRUNE } from './prune.js'
import { QUEUES } from './queues.js'
import { REQUEUE } from './requeue.js'
import { SCHEDULES } from './schedules.js'
import { SERIES } from './series.js'
import { SETTLE } from './settle.js'
import { STANDING } from './standing.js'
import { STATS } from './stats.js'
import { UPDATE } from './update.js'
import { LAYOUT, WORK_LUA } from './work.js'
import { WORKERS } from './workers.js'

// KEYS[1] is the prefix of every key; ARGV[1] the time of a test or '', ARGV[2] the name of the calling store. Each function says what
// else it takes. A function that writes answers with: time, answer, queues with new ready jobs, running jobs to cancel.
const REGISTER = lua`
local function writes(name, flags, run)
  redis.register_function({
    function_name = PREFIX .. name,
    flags = flags,
    callback = function(keys, args)
      local work = begin(keys[1], args)
      local answer = run(work, args)
      commit(work)
      return { text(work.t), answer, work.wokenNames, work.asked }
    end
  })
end

local function reads(name, run)
  redis.register_function({
    function_name = PREFIX .. name,
    flags = { 'no-writes' },
    callback = function(keys, args)
      local work = begin(keys[1], args)
      return { text(work.t), run(work, args) }
    end
  })
end

-- ARGV: '1' to make the store where there is none. Answers with the layout there, or ''.
redis.register_function({
  function_name = PREFIX .. 'open',
  -- Workers must be able to connect when memory is full: they free it.
  flags = { 'allow-oom' },
  callback = function(keys, args)
    local layout = redis.call('HGET', keys[1] .. 'meta', 'layout')
    if layout then return layout end
    if args[1] ~= '1' then return '' end
    redis.call('HSET', keys[1] .. 'meta', 'layout', LAYOUT)
    return LAYOUT
  end
})

reads('now', function() return 0 end)

-- ARGV: queues.
writes('wake', { 'allow-oom' }, function(work, args)
  for i = 3, #args do wake(work, args[i]) end
  return {}
end)
`

const SHARED = [CHUNKS_LUA, WORK_LUA, JOBS_LUA, KEYS_LUA, MOVES_LUA, CHAINS_LUA, REGISTER]
/** In this order: what a piece defines the later ones use. */
const OPERATIONS = [
  ...[
    ENQUEUE,
    CLAIM,
    SETTLE,
    EXTEND,
    NOTE,
    PROMOTE,
    EXPIRED,
    CANCEL,
    REQUEUE,
    UPDATE,
    QUEUES,
    GET,
    ENDINGS,
    LIST,
    STATS,
    STANDING,
  ],
  ...[SCHEDULES, BULKS, AUDIT, API_KEYS, WORKERS, SERIES, PRUNE],
]
const BODY = [...SHARED, ...OPERATIONS].join('\n')
const HASH = createHash('sha256').update(BODY).digest('hex').slice(0, 8)

export const LIBRARY_NAME: string = `holdfast_${LAYOUT}_${HASH}`
const PREFIX = `hf${LAYOUT}_${HASH}_`

/** What FUNCTION LOAD takes. */
export const LIBRARY: string = `#!lua name=${LIBRARY_NAME}
local LAYOUT, PREFIX = '${LAYOUT}', '${PREFIX}'
${BODY}`

/** The name of a function on the server. */
export function functionName(name: string): string {
  return PREFIX + name
}
