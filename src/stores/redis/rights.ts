// What the ACL user of a connection must be allowed to do. It is asked for when a store is opened: a right that is missing would otherwise
// be met by whichever call needs it first.

import { HoldfastError } from '../../core/errors.js'
import { redactUrl } from '../../core/url.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/** ARGV: for each command the number of its words, and the words. Answers with the commands that the user may not run. */
export const RIGHTS: string = lua`
-- Without a look at the store: there may be none yet.
redis.register_function({
  function_name = PREFIX .. 'rights',
  flags = { 'no-writes' },
  callback = function(_, args)
    local missing, from = {}, 1
    while from <= #args do
      local upTo = from + tonumber(args[from])
      if not redis.acl_check_cmd(unpack(args, from + 1, upTo)) then missing[#missing + 1] = args[from + 1] end
      from = upTo + 1
    end
    return missing
  end
})
`

/** Every command that the functions run on keys, with words behind the key that make it complete. */
export const KEY_COMMANDS: Readonly<Record<string, string>> = {
  ...{ DEL: '', EXISTS: '' },
  ...{ HDEL: '0', HEXISTS: '0', HGET: '0', HGETALL: '', HINCRBY: '0 1', HINCRBYFLOAT: '0 1', HKEYS: '' },
  ...{ HLEN: '', HMGET: '0', HSET: '0 0' },
  ...{ LINDEX: '0', LLEN: '', LRANGE: '0 1', LPUSH: '0', LTRIM: '0 1', RPUSH: '0' },
  ...{ SADD: '0', SCARD: '', SMEMBERS: '', SREM: '0' },
  ...{ XADD: '* 0 0', XDEL: '0-1', XLEN: '', XRANGE: '- +', XREVRANGE: '+ -' },
  ...{ ZADD: '0 0', ZCARD: '', ZCOUNT: '0 1', ZRANGE: '0 1', ZRANGEBYLEX: '- +', ZRANGEBYSCORE: '0 1', ZREM: '0' },
  ...{ ZREMRANGEBYRANK: '0 0' },
  ...{ ZREVRANGE: '0 1', ZREVRANGEBYLEX: '+ -', ZREVRANGEBYSCORE: '1 0', ZSCORE: '0' },
}

/** Raises `access_denied` with the commands that the user lacks. With `onlyNames` the commands are known to be allowed, and only the names of
 *  these keys and this channel are tried. */
export async function checkRights(redis: Redis, onlyNames = false): Promise<void> {
  const { base, url, durability } = redis.settings
  const names = [
    ['HSET', base, '0', '0'],
    ['SPUBLISH', `${base}wake`, ''],
  ]
  const commands = onlyNames
    ? names
    : [
        ...Object.entries(KEY_COMMANDS).map(([name, rest]) => [
          name,
          base,
          ...rest.split(' ').filter((word) => word !== ''),
        ]),
        ['TIME'],
        ['SPUBLISH', `${base}wake`, ''],
        ['SSUBSCRIBE', `${base}wake`],
        ...(durability === 'replicated' ? [['WAIT', '0', '1']] : []),
        ...(durability === 'fsynced' ? [['WAITAOF', '0', '0', '1']] : []),
      ]
  const args = commands.flatMap((words) => [words.length, ...words])
  const missing = await redis.missing(args.map(String))
  if (missing.length === 0) return
  throw new HoldfastError(
    'access_denied',
    `the ACL user at ${redactUrl(url)} may not run ${missing.join(', ')} on ${base}*: docs/redis.md has the rule it needs; nothing was written`,
    { details: { missing } },
  )
}
