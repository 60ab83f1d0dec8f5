// A process and its children.

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The ids of a process and of its children. */
export async function familyOf(pid: number): Promise<readonly number[]> {
  const family = [pid]
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(join('/proc', name, 'stat'), 'utf8').catch(() => '')
    // The second field is the command's name in brackets, which may have blanks.
    if (Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid) family.push(Number(name))
  }
  return family
}
