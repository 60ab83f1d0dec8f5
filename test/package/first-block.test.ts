// The README's first block, pasted into an empty folder by somebody who has nothing but a package manager and a Node.

import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { emptyFolder, firstBlock, MANAGERS, NODES, type NodeMajor, type Packed, pack, run } from './packed.js'

const OUTPUT = 'attempt 1: welcome to ada@example.com\n{ sent: true }\n'
// Each installs with another version; every version runs what each has installed.
const INSTALLED_WITH = { npm: '24', pnpm: '22', yarn: '20' } as const

let packed: Packed
beforeAll(() => {
  packed = pack()
})
afterAll(() => packed?.remove())

test('the README says to install the package and the schema library that its block imports', () => {
  const imported = [...firstBlock('ts').matchAll(/ from '([^']+)'/g)].map(([, name]) => name!)

  expect(firstBlock('sh').trim()).toBe(`npm install ${imported.join(' ')}`)
})

describe.each(['npm', 'pnpm', 'yarn'] as const)('%s', (manager) => {
  let folder: string
  beforeAll(() => {
    folder = emptyFolder(packed, manager)
    const names = firstBlock('sh').trim().split(' ').slice(2)
    const [program, ...words] = MANAGERS[manager]
    const wanted = names.map((name) => (name === 'holdfast' ? packed.tarball : name))
    run(program!, [...words, ...wanted], { cwd: folder, node: INSTALLED_WITH[manager] })
    writeFileSync(join(folder, 'index.mjs'), firstBlock('ts'))
  }, 240_000)

  test.each(Object.keys(NODES) as NodeMajor[])(
    'runs on Node %s and prints nothing but its own output',
    { timeout: 60_000 },
    (node) => {
      rmSync(join(folder, '.holdfast'), { recursive: true, force: true })

      const ended = run('node', ['index.mjs'], { cwd: folder, node })

      expect(ended).toEqual({ stdout: OUTPUT, stderr: '' })
    },
  )
})
