// Reads the text format of Prometheus as strictly as promtool does, and complains about everything it would.

interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Family {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly samples: readonly Sample[]
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/

/** The families of an exposition; throws at the first thing that is wrong. */
export function readExposition(text: string): readonly Family[] {
  if (!text.endsWith('\n')) throw new Error('the last line does not end')
  const families = new Map<string, { help: string; type: string; samples: Sample[] }>()
  let current = ''
  for (const line of text.split('\n')) {
    if (line === '') continue
    const comment = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line)
    if (comment !== null) {
      const [, kind, name, rest] = comment as unknown as [string, string, string, string]
      if (kind === 'HELP') {
        if (!NAME.test(name) || families.has(name)) throw new Error(`second or bad HELP: ${line}`)
        families.set(name, { help: rest, type: '', samples: [] })
        current = name
      } else {
        if (name !== current || families.get(name)!.type !== '') throw new Error(`TYPE in the wrong place: ${line}`)
        families.get(name)!.type = rest
      }
      continue
    }
    families.get(current)!.samples.push(readSample(line, current))
  }
  const all = [...families].map(([name, family]) => ({ name, ...family }))
  for (const family of all) checkFamily(family)
  return all
}

function readSample(line: string, family: string): Sample {
  const [, name, labels, value] = SAMPLE.exec(line) ?? []
  if (name === undefined || value === undefined) throw new Error(`not a sample: ${line}`)
  if (!name.startsWith(family)) throw new Error(`a sample outside of its family ${family}: ${line}`)
  const number = value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value)
  if (Number.isNaN(number)) throw new Error(`not a number: ${line}`)
  return { name, labels: readLabels(labels ?? ''), value: number }
}

function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {}
  for (let rest = text; rest !== ''; ) {
    const match = LABEL.exec(rest)
    if (match === null) throw new Error(`not labels: ${text}`)
    const [whole, name, value] = match as unknown as [string, string, string]
    if (name in labels) throw new Error(`label ${name} twice: ${text}`)
    labels[name] = value
    rest = rest.slice(whole.length)
  }
  return labels
}

function checkFamily({ name, help, type, samples }: Family): void {
  if (help.trim() === '') throw new Error(`${name} has no help`)
  if (!['counter', 'gauge', 'histogram'].includes(type)) throw new Error(`${name} has the type ${type}`)
  if ((type === 'counter') !== name.endsWith('_total'))
    throw new Error(`${name} is a ${type}: only counters end in _total`)
  const series = samples.map(({ name: sample, labels }) => `${sample} ${JSON.stringify(Object.entries(labels).sort())}`)
  if (new Set(series).size !== series.length) throw new Error(`${name} has a series twice`)
  if (type === 'counter' && samples.some(({ value }) => value < 0)) throw new Error(`${name} is negative`)
  if (type === 'histogram') checkHistogram(name, samples)
  else if (samples.some((sample) => sample.name !== name)) throw new Error(`${name} has samples of another name`)
}

function checkHistogram(name: string, samples: readonly Sample[]): void {
  const series = new Map<string, Sample[]>()
  for (const sample of samples) {
    const { le: _, ...labels } = sample.labels
    const key = JSON.stringify(labels)
    series.set(key, [...(series.get(key) ?? []), sample])
  }
  for (const parts of series.values()) {
    const buckets = parts.filter((part) => part.name === `${name}_bucket`)
    const bounds = buckets.map(({ labels }) => (labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels.le)))
    const counts = buckets.map(({ value }) => value)
    const count = parts.find((part) => part.name === `${name}_count`)?.value
    const isAscending = (values: readonly number[]) => values.every((value, at) => at === 0 || value >= values[at - 1]!)
    if (!isAscending(bounds) || !isAscending(counts)) throw new Error(`the buckets of ${name} are not in order`)
    if (bounds.at(-1) !== Number.POSITIVE_INFINITY || counts.at(-1) !== count) throw new Error(`${name} lacks its end`)
    if (!parts.some((part) => part.name === `${name}_sum`)) throw new Error(`${name} has no sum`)
  }
}

/** The sum of the samples of that name whose labels include these; null when there is none. */
export function readValue(text: string, name: string, labels: Readonly<Record<string, string>> = {}): number | null {
  const found = readExposition(text)
    .flatMap(({ samples }) => samples)
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
  return found.length === 0 ? null : found.reduce((sum, { value }) => sum + value, 0)
}
