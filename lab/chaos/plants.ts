// Mistakes put into the product on purpose, to see that a run on real processes and a real server is able to fail: text of a compiled
// module is replaced as the worker processes load it.

/** One mistake: in which modules, what, by what. */
interface Plant {
  /** Texts of the functions on Redis, which the run loads itself. */
  readonly lua?: readonly { readonly find: string; readonly by: string }[]
  readonly replacements: readonly { readonly module: string; readonly find: string; readonly by: string }[]
  /** One of these the checker must say. */
  readonly invariants: readonly string[]
}

export const PLANTS: Readonly<Record<string, Plant>> = {
  'settle without fence': {
    replacements: [
      {
        module: 'stores/postgres/settle-succeeded.js',
        find: 'AND ((running.id, running.fence) IN (SELECT outcome.id, outcome.fence FROM outcome)) IS TRUE',
        by: '',
      },
      { module: 'stores/postgres/settle-any.js', find: 'AND running.fence = outcome.fence', by: '' },
      { module: 'stores/postgres/settle-succeeded.js', find: 'AND outcome.fence = gone.fence', by: '' },
      { module: 'stores/postgres/settle-any.js', find: 'AND outcome.fence = gone.fence', by: '' },
    ],
    invariants: ['I4', 'I5', 'I6'],
  },
  'rescue leases that hold': {
    replacements: [
      {
        module: 'stores/postgres/settle-any.js',
        find: 'AND (NOT $13::boolean OR running.leased_until <= moment.now)',
        by: '',
      },
      { module: 'stores/postgres/expired.js', find: 'leased_until <= ', by: "leased_until <= interval '2 seconds' + " },
    ],
    invariants: ['I3'],
  },
  'attempts are not counted': {
    replacements: [
      {
        module: 'stores/postgres/claim.js',
        find: 'coalesce(removed.attempt, 0) + 1',
        by: 'coalesce(removed.attempt, 0) + 0',
      },
    ],
    invariants: ['I5'],
  },
  'redis: settle without fence': {
    lua: [
      {
        find: "if not job or job.state ~= 'R' or job.fence ~= settled.fence then",
        by: "if not job or job.state ~= 'R' then",
      },
    ],
    replacements: [],
    invariants: ['I4', 'I5', 'I6'],
  },
}

/** What a plant changes in the functions on Redis. */
export function plantedLua(name: string | null): readonly { readonly find: string; readonly by: string }[] {
  return name === null ? [] : (plantOf(name).lua ?? [])
}

function plantOf(name: string): Plant {
  const plant = PLANTS[name]
  if (plant !== undefined) return plant
  throw new Error(`there is no plant ${JSON.stringify(name)}; there are: ${Object.keys(PLANTS).join(', ')}`)
}

/** The modules a worker process loads first for a plant. */
export function plantImports(name: string | null): string[] {
  if (name === null) return []
  const plant = plantOf(name)
  if (plant.replacements.length === 0) return []
  const hook = `
    const replacements = ${JSON.stringify(plant.replacements)}
    export async function load(url, context, next) {
      const loaded = await next(url, context)
      const own = replacements.filter(({ module }) => url.endsWith('/' + module))
      if (own.length === 0) return loaded
      let source = String(loaded.source)
      for (const { find, by } of own) {
        if (!source.includes(find)) throw new Error('nothing to plant in ' + url + ': ' + find)
        source = source.replaceAll(find, by)
      }
      return { ...loaded, source }
    }`
  const register = `import { register } from 'node:module'; register(${JSON.stringify(dataUrl(hook))})`
  return [dataUrl(register)]
}

function dataUrl(code: string): string {
  return `data:text/javascript,${encodeURIComponent(code)}`
}
