// Holds the keys of flow control on Redis against the jobs there are: a slot, a place or a turn that belongs to no job would be one that leaked.

import { spawnSync } from 'node:child_process'
import type { RedisServer } from '../../lab/servers/redis.js'
import type { RedisCluster } from '../../lab/servers/redis-cluster.js'
import { groupOf } from '../../src/stores/memory/held.js'
import type { Job, Memory } from '../../src/stores/memory/memory.js'
import { shortId } from '../../src/stores/redis/ids.js'

/** Answers with each sorted set as "<key>: <members>", members in order. */
const MEMBERS = `
local found = {}
for _, kind in ipairs({ 'slots', 'busy', 'again', 'place', 'held', 'groups' }) do
  for _, key in ipairs(redis.call('KEYS', '{hf:0}:' .. kind .. ':*')) do
    local members = redis.call('ZRANGE', key, 0, -1)
    table.sort(members)
    found[#found + 1] = string.sub(key, 8) .. ': ' .. table.concat(members, ' ')
  end
end
return cjson.encode(found)`

/** What the keys of flow control say beyond or short of the jobs of the memory store, in words. */
export function strayKeys(server: RedisServer, memory: Memory): string[] {
  const said = evaluate(server, MEMBERS)
  const actual = said === '{}' ? [] : (JSON.parse(said) as string[])
  const expected = expectedKeys(memory)
  return [
    ...actual.filter((line) => !expected.includes(line)).map((line) => `too much: ${line}`),
    ...expected.filter((line) => !actual.includes(line)).map((line) => `missing: ${line}`),
  ]
}

/** In a cluster: what the homes of limits count, and loans that are out. One "<limit>: <running>" for each home. */
const COUNTS = `
local found = {}
for _, key in ipairs(redis.call('KEYS', '*:runs:*')) do
  local sum, runs = 0, redis.call('HGETALL', key)
  for i = 2, #runs, 2 do sum = sum + tonumber(string.match(runs[i], '^%d+')) end
  if sum > 0 then found[#found + 1] = string.match(key, ':runs:(.*)$') .. ': ' .. sum end
end
for _, key in ipairs(redis.call('KEYS', '*:limit:*')) do
  if redis.call('HEXISTS', key, 'loan') == 1 then found[#found + 1] = 'on loan: ' .. key end
end
return cjson.encode(found)`

/** Where the homes of limits count other than the jobs that run, in words. */
export function strayLimits(cluster: RedisCluster, memory: Memory): string[] {
  const actual = cluster.masters.flatMap((server) => {
    const said = evaluate(server, COUNTS)
    return said === '{}' ? [] : (JSON.parse(said) as string[])
  })
  const counts = new Map<string, number>()
  for (const { facts, state } of memory.jobs.values()) {
    if (state !== 'running') continue
    for (const name of facts.flow?.limits ?? []) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const expected = [...counts].filter(([name]) => memory.limits.has(name)).map(([name, count]) => `${name}: ${count}`)
  return [
    ...actual.filter((line) => !expected.includes(line)).map((line) => `too much: ${line}`),
    ...expected.filter((line) => !actual.includes(line)).map((line) => `missing: ${line}`),
  ]
}

function evaluate(server: RedisServer, script: string): string {
  return spawnSync('redis-cli', ['-p', String(server.port), 'EVAL', script, '0'], { encoding: 'utf8' }).stdout.trim()
}

function expectedKeys(memory: Memory): string[] {
  const keys = new Map<string, string[]>()
  const add = (key: string, member: string) => keys.set(key, [...(keys.get(key) ?? []), member])
  for (const job of memory.jobs.values()) for (const key of keysOf(job)) add(key, shortId(job.facts.id))
  for (const [queue, names] of groupNames(memory)) for (const name of names) add(`groups:${queue}`, name)
  return [...keys].map(([key, members]) => `${key}: ${members.sort(compareBytes).join(' ')}`)
}

function keysOf(job: Job): string[] {
  const { facts, state, fence } = job
  const { queue, flow } = facts
  const group = groupOf(job)
  if (flow === undefined) return []
  const track = flow.limits.join(',') || '-'
  if (state === 'ready') return [`place:${queue} ${track} ${group}`, `held:${queue} ${track}`]
  const hasGroup = group !== ''
  if (state === 'running') {
    return [...flow.limits.map((name) => `slots:${name}`), ...(hasGroup ? [`busy:${queue} ${group}`] : [])]
  }
  const isStarted = fence > 0 && (state === 'retrying' || state === 'scheduled')
  return isStarted && hasGroup ? [`again:${queue} ${group}`] : []
}

function groupNames(memory: Memory): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>()
  const add = (queue: string, group: string) => names.set(queue, (names.get(queue) ?? new Set()).add(group))
  for (const job of memory.jobs.values()) {
    if (groupOf(job) !== '' && (job.state === 'ready' || job.state === 'running')) add(job.facts.queue, groupOf(job))
  }
  for (const [queue, groups] of memory.groups) {
    for (const [group, { override, paused }] of groups) if (override !== null || paused) add(queue, group)
  }
  return names
}

function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}
