// The clock of a server that can be set while it runs: Debian's libfaketime is loaded into it and reads the shift from a file.

import { existsSync, readdirSync } from 'node:fs'
import { chmod, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const LIBRARIES = '/usr/lib'

/** The library, or null where Debian's package libfaketime is not installed. */
export function faketimeLibrary(): string | null {
  if (!existsSync(LIBRARIES)) return null
  const places = readdirSync(LIBRARIES).map((name) => join(LIBRARIES, name, 'faketime/libfaketime.so.1'))
  return places.find((place) => existsSync(place)) ?? null
}

export class ServerClock {
  readonly #file: string
  readonly #library: string
  #shiftMs = 0

  private constructor(library: string, file: string) {
    this.#library = library
    this.#file = file
  }

  /** `folder` is where the file goes; the server must be able to read it. */
  static async open(library: string, folder: string): Promise<ServerClock> {
    const clock = new ServerClock(library, join(folder, 'clock'))
    await clock.#write()
    return clock
  }

  /** What the server is to be started with. */
  get environment(): Readonly<Record<string, string>> {
    return {
      LD_PRELOAD: this.#library,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      // Read at every call, so that a jump is visible immediately; durations are not changed.
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    }
  }

  /** Moves it by this much. */
  async move(byMs: number): Promise<void> {
    this.#shiftMs += byMs
    await this.#write()
  }

  async #write(): Promise<void> {
    // Written atomically: the server may read it at any moment.
    const next = `${this.#file}.next`
    await writeFile(next, `${this.#shiftMs < 0 ? '-' : '+'}${Math.abs(this.#shiftMs) / 1_000}\n`)
    await chmod(next, 0o644)
    await rename(next, this.#file)
  }
}
