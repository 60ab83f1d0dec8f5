// The store as its own witness: what its functions write to a job's facts and standing, to leases and ticks, is appended to a stream of
// the same shard, in the same call. So the witness has what the store has, after a restart and after a failover too. Only runs of the lab
// have it: the library under its usual name, with a few lines before it that stand between the functions and the server.

import { LIBRARY } from '../../../src/stores/redis/library.js'
import { lua } from '../../../src/stores/redis/lua.js'

/** Behind the prefix of a shard's keys: the stream of its changes. */
export const WITNESS = 'witness'

// An entry has: the server that ran the call, its time in ms, and the changes as JSON: a letter for the kind of key, then the command.
const BETWEEN = lua`
-- Inside, redis is the server's own table; behind this, it is the one that is returned.
local redis = (function()
  local changes, time, server
  local function letterOf(command, key)
    if command == 'HSET' or command == 'HDEL' then return string.match(key, ':([fs]):[^:]*$') end
    if command == 'ZADD' and string.match(key, ':leases$') then return 'l' end
    if command == 'ZADD' then return string.match(key, ':ticks:[^:]*$') and 't' end
  end
  local function call(...)
    local command, key = ...
    local letter = changes and letterOf(command, key)
    if letter then changes[#changes + 1] = { letter, key, command, select(3, ...) } end
    local answer = redis.call(...)
    if command == 'TIME' then time = string.format('%.0f', answer[1] * 1000 + math.floor(answer[2] / 1000)) end
    return answer
  end
  local function nameOf()
    local facts = redis.call('INFO', 'server')
    return string.match(facts, 'tcp_port:(%d+)') .. ' ' .. string.match(facts, 'run_id:(%w+)')
  end
  local function register(spec)
    local run = spec.callback
    spec.callback = function(keys, args)
      changes = {}
      local isDone, answer = pcall(run, keys, args)
      local made = changes
      changes = nil
      if #made > 0 then
        server = server or nameOf()
        redis.call('XADD', keys[1] .. 'witness', '*', 'server', server, 'at', time, 'changes', cjson.encode(made))
      end
      -- A text again becomes what a function raises: otherwise the server puts a place before it, and nobody knows its word.
      if not isDone then error({ err = answer }) end
      return answer
    end
    return redis.register_function(spec)
  end
  local function mayRun(...) return redis.acl_check_cmd(...) end
  return { call = call, register_function = register, acl_check_cmd = mayRun }
end)()
`

/** The library that a run loads: watched, and with texts of it replaced for a mistake on purpose. */
export function watchedLibrary(replacements: readonly { readonly find: string; readonly by: string }[]): string {
  let library = LIBRARY
  for (const { find, by } of replacements) {
    if (!library.includes(find)) throw new Error(`nothing to plant in the library: ${find}`)
    library = library.replaceAll(find, by)
  }
  const end = library.indexOf('\n') + 1
  return library.slice(0, end) + BETWEEN + library.slice(end)
}
