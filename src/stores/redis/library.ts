// Every function, joined into one library of Redis Functions. Its name has the layout of the keys and a hash of its text, so that two
// versions of Holdfast on one server each call their own. A person can read it with `redis-cli FUNCTION LIST WITHCODE`.

import { createHash } from 'node:crypto'
import { TRACKS_MAX } from '../../core/flow/job-flow.js'
import { API_KEYS } from './api-keys.js'
import { AUDIT } from './audit.js'
import { BULKS } from './bulks.js'
import { BURY } from './bury.js'
import { CANCEL } from './cancel.js'
import { CHAINS_LUA } from './chains.js'
import { CHUNKS_LUA } from './chunks.js'
import { CLAIM, CLAIM_LUA } from './claim.js'
import { DELETE } from './delete.js'
import { ENDINGS } from './endings.js'
import { ENQUEUE } from './enqueue.js'
import { ENQUEUE_PLAIN } from './enqueue-plain.js'
import { EPOCH } from './epochs.js'
import { EXPIRED } from './expired.js'
import { EXTEND } from './extend.js'
import { FLOW_CLAIM } from './flow-claim.js'
import { FLOW_COUNTS } from './flow-counts.js'
import { FLOW_LOOKS } from './flow-looks.js'
import { FLOW_STANDING } from './flow-standing.js'
import { GET } from './get.js'
import { GROUPS, GROUPS_LUA } from './groups.js'
import { HELD_LUA } from './held.js'
import { JOBS_LUA } from './jobs.js'
import { KEPT, KEPT_LUA } from './kept.js'
import { KEYS_LUA } from './keys.js'
import { LENDING, LENDING_LUA } from './lending.js'
import { LIMITS_LUA } from './limit-claims.js'
import { LIMITS } from './limits.js'
import { LIST } from './list.js'
import { lua } from './lua.js'
import { MOVES_LUA } from './moves.js'
import { NOTE } from './note.js'
import { OUTPUT } from './output.js'
import { OWED, OWED_LUA } from './owed.js'
import { PROMOTE } from './promote.js'
import { PRUNE } from './prune.js'
import { QUEUES } from './queues.js'
import { RATE_LUA } from './rate.js'
import { REQUEUE } from './requeue.js'
import { RIGHTS } from './rights.js'
import { SCHEDULES } from './schedules.js'
import { SERIES } from './series.js'
import { SETTLE } from './settle.js'
import { SIGNAL, SIGNAL_LUA } from './signal.js'
import { SPREAD } from './spread.js'
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
      if not work.shard then return { text(work.t), answer, work.wokenNames, work.asked } end
      return { text(work.t), answer, work.wokenNames, work.asked, work.owed, work.auditLine and text(work.auditLine) or '' }
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

-- ARGV: '1' to make the store where there is none, how many shards a new one has, which of them this is. Answers with the layout there,
-- or '', and with how many shards it has.
redis.register_function({
  function_name = PREFIX .. 'open',
  -- Workers must be able to connect when memory is full: they free it.
  flags = { 'allow-oom' },
  callback = function(keys, args)
    local meta = redis.call('HMGET', keys[1] .. 'meta', 'layout', 'shards')
    if meta[1] then return { meta[1], meta[2] or '1' } end
    if args[1] ~= '1' then return { '', '1' } end
    redis.call('HSET', keys[1] .. 'meta', 'layout', LAYOUT)
    if args[2] ~= '1' then redis.call('HSET', keys[1] .. 'meta', 'shards', args[2], 'shard', args[3]) end
    return { LAYOUT, args[2] }
  end
})

reads('now', function() return 0 end)

-- ARGV: queues.
writes('wake', { 'allow-oom' }, function(work, args)
  for i = 3, #args do wake(work, args[i]) end
  return {}
end)
`

const FLOW = [RATE_LUA, HELD_LUA, LIMITS_LUA, LENDING_LUA, GROUPS_LUA]
const SHARED = [
  CHUNKS_LUA,
  WORK_LUA,
  JOBS_LUA,
  KEYS_LUA,
  MOVES_LUA,
  KEPT_LUA,
  SIGNAL_LUA,
  ...FLOW,
  OWED_LUA,
  CHAINS_LUA,
  REGISTER,
]
/** Pieces whose own names no other piece uses. Lua takes 200 local names at a time, and those of a block are free again after it. */
function alone(...pieces: readonly string[]): string {
  return `do\n${pieces.join('\n')}\nend`
}

/** In this order: what a piece defines the later ones use. */
const OPERATIONS = [
  ...[
    ENQUEUE,
    ENQUEUE_PLAIN,
    CLAIM_LUA,
    alone(FLOW_CLAIM, CLAIM),
    SETTLE,
    BURY,
    EXTEND,
    NOTE,
    KEPT,
    SIGNAL,
    OUTPUT,
    PROMOTE,
    EXPIRED,
    CANCEL,
    REQUEUE,
    alone(UPDATE),
    QUEUES,
    GET,
    ENDINGS,
    LIST,
    STATS,
    LIMITS,
    LENDING,
    alone(GROUPS),
    FLOW_STANDING,
    alone(STANDING),
    alone(FLOW_COUNTS),
    alone(FLOW_LOOKS),
  ],
  ...[RIGHTS, SCHEDULES, DELETE, BULKS, AUDIT, alone(API_KEYS), WORKERS, SERIES, alone(PRUNE), EPOCH, OWED, SPREAD],
]
const BODY = [...SHARED, ...OPERATIONS].join('\n')
const HASH = createHash('sha256').update(BODY).digest('hex').slice(0, 8)

export const LIBRARY_NAME: string = `holdfast_${LAYOUT}_${HASH}`
const PREFIX = `hf${LAYOUT}_${HASH}_`

/** What FUNCTION LOAD takes. */
export const LIBRARY: string = `#!lua name=${LIBRARY_NAME}
local LAYOUT, PREFIX, TRACKS_MAX = '${LAYOUT}', '${PREFIX}', ${TRACKS_MAX}
${BODY}`

/** The name of a function on the server. */
export function functionName(name: string): string {
  return PREFIX + name
}

/** A script that has every function, for servers where functions are forbidden. Flags belong to a whole script, so there is one for each. */
export interface Script {
  readonly text: string
  readonly sha: string
}

const SCRIPTS = new Map<string, Script>()

// ARGV[1] is the name of the function; the rest is as for a function.
function scriptOf(flags: '' | 'allow-oom' | 'no-writes'): Script {
  const body = BODY.replaceAll('redis.register_function(', 'register(')
  const text = `#!lua${flags === '' ? '' : ` flags=${flags}`}
local LAYOUT, PREFIX, functions = '${LAYOUT}', '', {}
local function register(each) functions[each.function_name] = each.callback end
${body}
return functions[table.remove(ARGV, 1)](KEYS, ARGV)`
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

const CAN_OVERRUN = new Set([
  'open',
  ...[...BODY.matchAll(/^writes\('(\w+)', \{ 'allow-oom' \}/gm)].map(([, name]) => name!),
])

/** The script to call a function of. */
export function scriptFor(name: string, isRead: boolean): Script {
  const flags = isRead ? 'no-writes' : CAN_OVERRUN.has(name) ? 'allow-oom' : ''
  let script = SCRIPTS.get(flags)
  if (script === undefined) {
    script = scriptOf(flags)
    SCRIPTS.set(flags, script)
  }
  return script
}
