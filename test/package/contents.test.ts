// What is in the package, and that it holds together without the repository around it.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { emptyFolder, type Packed, pack, run } from './packed.js'

const ROOT = join(import.meta.dirname, '..', '..')
// Import, outbox and deletion made it grow by 0.25 MB.
const UNPACKED_MAX = 4_200_000

let packed: Packed
let project: string
let installed: string
beforeAll(() => {
  packed = pack()
  project = emptyFolder(packed, 'project')
  run('npm', ['install', packed.tarball], { cwd: project })
  installed = join(project, 'node_modules', 'holdfast')
}, 120_000)
afterAll(() => packed?.remove())

interface Manifest {
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>
  readonly [field: string]: unknown
}

function manifest(): Manifest {
  return JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as Manifest
}

describe('the package', () => {
  test('is below 4.2 MB unpacked', () => {
    expect(packed.unpackedSize).toBeLessThan(UNPACKED_MAX)
  })

  test('has what runs, the guides, the alert rules and the Grafana dashboard, and nothing else', () => {
    const kinds = new Set(packed.files.map(({ path }) => path.replace(/^((?:dist|docs|deploy)\/[^/]+)\/.*$/, '$1/')))

    const guides = [...kinds].filter((kind) => /^docs\/[\w-]+\.md$/.test(kind))
    expect(guides.length).toBeGreaterThan(15)
    expect([...kinds].filter((kind) => !guides.includes(kind)).sort()).toEqual(
      [
        ...['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json'],
        ...['deploy/alerts.yaml', 'deploy/grafana/', 'dist/lab/', 'dist/src/', 'docs/images/'],
      ].sort(),
    )
  })

  test('has no source maps, tests or result documents', () => {
    const strange = packed.files.filter(({ path }) => /\.map$|\.test\.|(?<!\.d)\.ts$|findings|store-suite/.test(path))

    expect(strange).toEqual([])
  })

  test('says what it is and where it comes from', () => {
    const { description, keywords, repository, homepage, license } = manifest()

    expect(description).toMatch(/PostgreSQL.*Redis/)
    expect(keywords).toContain('postgresql')
    expect(homepage).toBeTypeOf('string')
    expect({ repository, license }).toMatchObject({ repository: { type: 'git' }, license: 'MIT' })
  })

  test('every link of its pages leads to a file that is in it', () => {
    const shipped = new Set(packed.files.map(({ path }) => path))
    const pages = packed.files.filter(({ path }) => path.endsWith('.md'))

    const broken = pages.flatMap(({ path }) => {
      const prose = readFileSync(join(ROOT, path), 'utf8').replace(/^```[\s\S]*?^```$/gm, '')
      return [...prose.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)]
        .map(([, target]) => target!)
        .filter((target) => !/^[a-z]+:/.test(target) && !shipped.has(normalize(join(dirname(path), target))))
        .map((target) => `${path} → ${target}`)
    })

    expect(broken).toEqual([])
  })

  test('every entry has its module and its types, and the types need nothing that is not there', {
    timeout: 180_000,
  }, () => {
    const names = Object.entries(manifest().exports).flatMap(([name, target]) =>
      typeof target === 'string' ? [] : [{ name: normalize(join('holdfast', name)), ...target }],
    )
    const missing = names.flatMap(({ types, default: module }) =>
      [types, module].filter((path) => !existsSync(join(installed, path))),
    )
    const lines = names.map(({ name }, index) => `import * as m${index} from '${name}'\nvoid m${index}`)
    writeFileSync(join(project, 'all.mts'), `${lines.join('\n')}\n`)
    const options = '--noEmit --strict --module nodenext --target es2022 --types node --skipLibCheck false'.split(' ')
    const types = ['--typeRoots', join(ROOT, 'node_modules', '@types')]
    run('node', [join(ROOT, 'node_modules/typescript/bin/tsc'), ...options, ...types, 'all.mts'], { cwd: project })
    const loaded = run(
      'node',
      ['-e', names.map(({ name }) => `await import('${name}')`).join('\n'), '--input-type=module'],
      {
        cwd: project,
      },
    )

    expect(missing).toEqual([])
    expect(loaded).toEqual({ stdout: '', stderr: '' })
  })
})

describe('the command of the package', () => {
  const holdfast = (...words: readonly string[]) =>
    run('node', [join(installed, 'dist/src/cli/main.js'), ...words], { cwd: project })

  test('runs the benchmark of Holdfast itself, and says where its peers are', { timeout: 120_000 }, () => {
    const { stdout, stderr } = holdfast('bench', '--', '--quick', '--rounds', '1', '--only', 'bulk', '--json')

    expect(stderr).toContain('Peers are measured from a clone of the repository. Here there are: holdfast, bare-sql,')
    expect(stderr).toContain('@redis/client is not installed')
    expect(JSON.parse(stdout)).toMatchObject({ program: 'bench', failures: [] })
  })

  test('runs the simulator', { timeout: 120_000 }, () => {
    const { stdout } = holdfast('simulate', '--count', '20', '--json')

    expect(JSON.parse(stdout)).toMatchObject({ done: 20, failures: [] })
  })
})
