// What deploy/ promises: files that can be read, versions that are pinned, and metrics that exist.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { type Family, readExposition } from './exposition.js'
import { type MetricsStage, openMetricsStage } from './stage.js'

const ROOT = join(import.meta.dirname, '..', '..')
const DEPLOY = join(ROOT, 'deploy')
const read = (file: string) => readFileSync(join(DEPLOY, file), 'utf8')
const files = readdirSync(DEPLOY, { recursive: true, encoding: 'utf8' })

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string
      readonly expr: string
      readonly labels: { readonly severity: string }
      readonly annotations: { readonly summary: string; readonly description: string }
    }[]
  }[]
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly targets?: readonly { readonly expr: string }[]
}

interface Compose {
  readonly services: Readonly<Record<string, { image?: string; ports?: string[]; volumes?: string[] }>>
}

let stage: MetricsStage
let families: readonly Family[]

beforeAll(async () => {
  stage = await openMetricsStage()
  families = readExposition(await stage.metrics.render())
})

afterAll(async () => {
  stage.metrics.close()
  await stage.holdfast.close()
})

/** Every name a query may use. */
function exported(): ReadonlySet<string> {
  return new Set(
    families.flatMap(({ name, type }) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    ),
  )
}

const namesIn = (text: string) => [...text.matchAll(/\bholdfast_[a-z0-9_]+/g)].map(([name]) => name)

function unknownIn(text: string): string[] {
  const known = exported()
  return namesIn(text).filter((name) => !known.has(name))
}

const rules = (parse(read('alerts.yaml')) as Rules).groups.flatMap((group) => group.rules)
const dashboard = JSON.parse(read('grafana/dashboards/holdfast.json')) as { panels: readonly Panel[] }
const queries = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))

describe('the alert rules', () => {
  test('use only metrics that are exported', () => {
    expect(rules.flatMap(({ expr }) => unknownIn(expr))).toEqual([])
    expect(rules.flatMap(({ expr }) => namesIn(expr)).length).toBeGreaterThan(rules.length - 1)
  })

  test('watch queue age, dead letters, poison, heartbeats, missing workers and the horizon', () => {
    const names = rules.map(({ alert }) => alert)

    expect(names).toEqual(
      expect.arrayContaining([
        ...['HoldfastQueueOld', 'HoldfastDeadLettersGrow', 'HoldfastPoison', 'HoldfastHeartbeatGap'],
        ...['HoldfastNoWorker', 'HoldfastHorizonHeld'],
      ]),
    )
    expect(new Set(names).size).toBe(names.length)
  })

  test('say how bad it is, what it is and what to do', () => {
    for (const { labels, annotations } of rules) {
      expect(['warning', 'critical']).toContain(labels.severity)
      expect(annotations.summary.length).toBeGreaterThan(10)
      expect(annotations.description.length).toBeGreaterThan(10)
    }
  })

  test('name reasons and states that exist', () => {
    const values = [...read('alerts.yaml').matchAll(/(?:reason|state)=~?"([^"]+)"/g)].flatMap(([, found]) =>
      found!.split('|'),
    )

    expect(new Set(values)).toEqual(new Set(['ready', 'crashed', 'invalid']))
  })
})

describe('the dashboard', () => {
  test('uses only metrics that are exported', () => {
    expect(queries.flatMap(unknownIn)).toEqual([])
    expect(unknownIn(read('grafana/dashboards/holdfast.json'))).toEqual([])
  })

  test('shows what the first description of the system asks for', () => {
    const shown = new Set(queries.flatMap(namesIn))

    for (const name of [
      ...['jobs_enqueued_total', 'jobs_claimed_total', 'jobs_settled_total', 'jobs_in_flight', 'queue_jobs'],
      ...['queue_oldest_ready_seconds', 'jobs_retried_total', 'jobs_dead_total', 'claim_duration_seconds_bucket'],
      ...['leases_extended_total', 'jobs_rescued_total'],
    ]) {
      expect(shown).toContain(`holdfast_${name}`)
    }
  })

  test('has queries with balanced brackets and panels with ids of their own', () => {
    const open = (text: string, sign: string) => text.split(sign).length
    const unbalanced = [...queries, ...rules.map(({ expr }) => expr)].filter(
      (expr) =>
        open(expr, '(') !== open(expr, ')') ||
        open(expr, '{') !== open(expr, '}') ||
        open(expr, '[') !== open(expr, ']'),
    )

    expect(unbalanced).toEqual([])
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
    expect(dashboard.panels.filter(({ title }) => title === '')).toEqual([])
  })
})

describe('compose.yaml', () => {
  const { services } = parse(read('compose.yaml'), { merge: true }) as Compose

  test('has the whole of it, each image at a version', () => {
    const images = Object.values(services).flatMap(({ image }) => image ?? [])

    expect(Object.keys(services).sort()).toEqual([
      ...[
        'grafana',
        'postgres',
        'prometheus',
        'redis',
        'redis-server',
        'redis-worker',
        'scrape-key',
        'server',
        'worker',
      ],
    ])
    expect(images.filter((image) => !/:v?\d+\.\d+(\.\d+)?(-\w+)?$/.test(image))).toEqual([])
    expect(read('Dockerfile').match(/^FROM \S+/gm)).toEqual(Array(2).fill('FROM node:20.20.2-bookworm-slim'))
  })

  test('opens nothing to the network', () => {
    const ports = Object.values(services).flatMap((service) => service.ports ?? [])

    expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([])
  })

  test('mounts files that exist', () => {
    const mounted = Object.values(services)
      .flatMap(({ volumes = [] }) => volumes)
      .filter((volume) => volume.startsWith('./'))
      .map((volume) => volume.slice(2).split(':')[0]!)

    expect(mounted.filter((path) => !files.includes(path))).toEqual([])
  })

  test('Prometheus and Grafana read what is mounted for them', () => {
    const prometheus = parse(read('prometheus.yaml')) as { rule_files: string[]; scrape_configs: unknown[] }
    const source = parse(read('grafana/provisioning/datasources/prometheus.yaml')) as { datasources: { uid: string }[] }
    const provider = parse(read('grafana/provisioning/dashboards/holdfast.yaml')) as {
      providers: { options: { path: string } }[]
    }

    expect(prometheus.rule_files).toEqual(['alerts.yaml'])
    expect(prometheus.scrape_configs).toHaveLength(2)
    expect(source.datasources[0]?.uid).toBe('prometheus')
    expect(services.grafana?.volumes).toContain(`./grafana/dashboards:${provider.providers[0]?.options.path}:ro`)
  })
})

describe('docs/metrics.md', () => {
  test('explains every metric, and no other', () => {
    const text = readFileSync(join(ROOT, 'docs', 'metrics.md'), 'utf8')
    const documented = [...text.matchAll(/^\| `(holdfast_\w+)`/gm)].map(([, name]) => name)

    expect([...documented].sort()).toEqual(families.map(({ name }) => name).sort())
    expect(namesIn(text).filter((name) => !exported().has(name) && !documented.includes(name))).toEqual([])
  })
})
