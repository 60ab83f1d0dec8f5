// The built command as a child process, and folders for it to run in.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

const ROOT = join(import.meta.dirname, '..', '..')
const MAIN = join(ROOT, 'dist', 'src', 'cli', 'main.js')
const PATIENCE_MS = 40_000

export interface RunOptions {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** What it reads on stdin. */
  readonly input?: string
}

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs the command to its end. */
export function run(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return start(args, options).ended
}

/** Starts the command; it is killed at the end of the test if it still runs. */
export function start(args: readonly string[], options: RunOptions = {}): Running {
  return startProgram([MAIN, ...args], options)
}

/** Starts a program in a process of its own, without the Holdfast settings of the environment that runs the tests. */
export function startProgram(args: readonly string[], options: RunOptions): Running {
  const child = spawnClean(process.execPath, args, options)
  child.stdin!.end(options.input ?? '')
  return watch(child)
}

const SCRIPT = '/usr/bin/script'

/** Whether commands can be started in a terminal here: that takes a program of Linux. */
export const hasTerminal: boolean = process.platform === 'linux' && existsSync(SCRIPT)

/** Starts the command in a terminal with this many columns, and 30 rows. */
export function startInTerminal(args: readonly string[], options: RunOptions = {}, columns = 100): Running {
  const line = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(' ')
  const command = `stty cols ${columns} rows 30 && exec ${line}`
  const env = { TERM: 'xterm-256color', SHELL: '/bin/sh', ...options.env }
  return watch(spawnClean(SCRIPT, ['-qfec', command, '/dev/null'], { ...options, env }))
}

function spawnClean(program: string, args: readonly string[], { cwd, env }: RunOptions): ChildProcess {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(HOLDFAST_|DATABASE_URL|FORCE_|NO_COLOR|NODE_)/.test(name),
  )
  return spawn(program, args, {
    cwd: cwd ?? tmpdir(),
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

function watch(child: ChildProcess): Running {
  const running = new Running(child)
  onTestFinished(() => running.kill())
  return running
}

export class Running {
  readonly ended: Promise<Ended>
  readonly #child: ChildProcess
  readonly #looks = new Set<() => void>()
  #stdout = ''
  #stderr = ''

  constructor(child: ChildProcess) {
    this.#child = child
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text
      this.#look()
    })
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
      this.#look()
    })
    this.ended = once(child, 'close').then(([code, signal]) => {
      this.#look()
      return { code, signal, stdout: this.#stdout, stderr: this.#stderr }
    })
  }

  get pid(): number {
    return this.#child.pid!
  }

  /** Everything it has printed so far, on either stream. */
  get printed(): string {
    return `${this.#stdout}${this.#stderr}`
  }

  /** The first line on either stream that matches, also if it came before. */
  line(pattern: RegExp): Promise<string> {
    return this.#await(pattern, () => {
      // Without what follows the last line break: a line counts when it is whole.
      const lines = [this.#stdout, this.#stderr].flatMap((text) => text.split('\n').slice(0, -1))
      return lines.find((line) => pattern.test(line))
    })
  }

  /** Everything on stdout, once it matches; for what ends without a line break. */
  text(pattern: RegExp): Promise<string> {
    return this.#await(pattern, () => (pattern.test(this.#stdout) ? this.#stdout : undefined))
  }

  #await(pattern: RegExp, find: () => string | undefined): Promise<string> {
    return new Promise((resolve, reject) => {
      const finish = (result: string | Error) => {
        clearTimeout(timer)
        this.#looks.delete(look)
        result instanceof Error ? reject(result) : resolve(result)
      }
      const look = () => {
        const found = find()
        if (found !== undefined) finish(found)
        else if (this.#child.exitCode !== null) finish(new Error(`it ended without ${pattern}:\n${this.printed}`))
      }
      const timer = setTimeout(() => finish(new Error(`it never printed ${pattern}:\n${this.printed}`)), PATIENCE_MS)
      this.#looks.add(look)
      look()
    })
  }

  /** Types into a terminal. */
  type(text: string): void {
    this.#child.stdin!.write(text)
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill('SIGKILL')
    await this.ended
  }

  #look(): void {
    for (const look of [...this.#looks]) look()
  }
}

/** A folder like a user's project, with the package installed; gone with the test. */
export async function makeProject(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-cli-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  await fillProject(folder, files)
  return folder
}

/** Installs the package, and pg beside it, into a folder and writes files there. */
export async function fillProject(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(join(folder, 'node_modules'), { recursive: true })
  await symlink(ROOT, join(folder, 'node_modules', 'holdfast'), 'junction')
  await symlink(join(ROOT, 'node_modules', 'pg'), join(folder, 'node_modules', 'pg'), 'junction')
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }\n')
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
}
