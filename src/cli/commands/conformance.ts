// holdfast conformance: whether a worker over HTTP, in any language, keeps the rules.

import { type Command, InvalidArgumentError } from 'commander'
import { addExamples, type Cli } from '../command.js'
import type { ConformanceCase } from '../conformance/cases.js'
import type { Stage } from '../conformance/stage.js'
import { EXIT } from '../exit-codes.js'
import { wholeNumber } from '../input/arguments.js'
import { writeJson } from '../output/json.js'

interface ConformanceFlags {
  readonly worker: string
  readonly patience: number
  readonly json?: boolean
}

interface Finding {
  readonly name: string
  readonly ok: boolean
  readonly why: string | null
  readonly ms: number
}

export function addConformance(parent: Command, cli: Cli): void {
  const command = parent
    .command('conformance')
    .summary('test a worker of another language')
    .description(
      'Starts a server on a store in memory, starts the worker with this command, gives it jobs, stops and kills it, and says what it does not keep. ' +
        'The worker finds its server in HOLDFAST_SERVER and HOLDFAST_KEY, and has the handlers listed in docs/http-workers.md. It does not use your store.',
    )
    .requiredOption('--worker <command>', 'how the worker is started, for a shell')
    .option('--patience <seconds>', 'how long to wait for each thing', seconds, 30)
    .option('--json', 'print the findings as JSON')
    .action((flags: ConformanceFlags) => conformance(cli, flags))
  addExamples(command, [
    ["holdfast conformance --worker 'python3 worker.py'", 'every case, a line each'],
    ["holdfast conformance --worker './worker --test' --json", 'for a program'],
  ])
}

function seconds(text: string): number {
  const value = wholeNumber(text)
  if (value >= 1 && value <= 600) return value
  throw new InvalidArgumentError('It must be from 1 to 600.')
}

async function conformance(cli: Cli, { worker, patience, json = false }: ConformanceFlags): Promise<void> {
  const [{ ALONE, TOGETHER }, { Stage }] = await Promise.all([
    import('../conformance/cases.js'),
    import('../conformance/stage.js'),
  ])
  const stage = await Stage.open(worker, patience * 1_000)
  const findings: Finding[] = []
  const note = (finding: Finding) => {
    findings.push(finding)
    if (!json)
      cli.stdout.line(
        `${finding.ok ? 'ok' : 'NOT OK'}  ${finding.name}${finding.why === null ? '' : `\n        ${finding.why}`}`,
      )
  }
  try {
    stage.start()
    await Promise.all(TOGETHER.map(async (one) => note(await runCase(one, stage))))
    // A worker that fails without faults would fail with them as well, and keep its user waiting.
    const isSound = findings.every(({ ok }) => ok)
    for (const one of isSound ? ALONE : []) {
      await stage.clear()
      note(await runCase(one, stage))
    }
    for (const { name } of isSound ? [] : ALONE)
      note({ name, ok: false, why: 'not run: the cases above come first', ms: 0 })
  } finally {
    await stage.close()
  }
  const failed = findings.filter(({ ok }) => !ok).length
  if (json) writeJson(cli, { cases: findings.length, failed, findings })
  else cli.stderr.line(`${findings.length - failed} of ${findings.length} cases kept`)
  if (failed > 0) process.exitCode = EXIT.checkFailed
}

async function runCase({ name, run }: ConformanceCase, stage: Stage): Promise<Finding> {
  const beganMs = performance.now()
  const msOf = () => Math.round(performance.now() - beganMs)
  try {
    await run(stage)
    return { name, ok: true, why: null, ms: msOf() }
  } catch (error) {
    return { name, ok: false, why: error instanceof Error ? error.message : String(error), ms: msOf() }
  }
}
