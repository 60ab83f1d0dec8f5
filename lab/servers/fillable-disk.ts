// A disk that can be full: a file system in memory whose size is set to what it holds, and back. Takes root on Linux.

import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rmdir, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const SIZE = '8g'
const TRIES = 20
/** With each try it keeps this much more room: on a busy machine more is written than the size before says. */
const ROOM = 128 * 1024

const run = promisify(execFile)

export class FillableDisk {
  /** A folder on it. */
  readonly folder: string
  readonly #mount: string

  private constructor(mount: string, folder: string) {
    this.#mount = mount
    this.folder = folder
  }

  /** Null where file systems can't be mounted. */
  static async open(): Promise<FillableDisk | null> {
    if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
    const mount = await mkdtemp(join(tmpdir(), 'holdfast-disk-'))
    try {
      await run('mount', ['-t', 'tmpfs', '-o', `size=${SIZE},mode=0755`, 'holdfast', mount])
    } catch {
      await rmdir(mount)
      return null
    }
    const folder = join(mount, 'data')
    await mkdir(folder)
    return new FillableDisk(mount, folder)
  }

  /** Leaves no free space, or so little that the next writes take it. */
  async fill(): Promise<void> {
    for (let tries = 1; ; tries++) {
      const { blocks, bfree, bsize } = await statfs(this.#mount)
      try {
        await this.#resize(String((blocks - bfree) * bsize + (tries - 1) * ROOM))
        return
      } catch (error) {
        // Something was written between reading the size and changing it.
        if (tries === TRIES) throw error
      }
    }
  }

  /** Restores its size. */
  async free(): Promise<void> {
    await this.#resize(SIZE)
  }

  async #resize(size: string): Promise<void> {
    await run('mount', ['-o', `remount,size=${size}`, this.#mount])
  }

  async close(): Promise<void> {
    await run('umount', [this.#mount])
    await rmdir(this.#mount)
  }
}
