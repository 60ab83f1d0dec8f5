// A JSON value as a tree. Branches are rendered when they are opened, so that a megabyte costs little.

import { type ReactNode, useState } from 'react'
import { ExactNumber } from '../api/exact-json.js'
import { webAddress } from '../links.js'
import { countOf } from '../numbers.js'

const CHILDREN_SHOWN = 100
const TEXT_SHOWN = 400
const OPEN_DEPTH = 2

export interface JsonViewProps {
  readonly value: unknown
  /** Paths whose value the server has masked. */
  readonly masked?: ReadonlySet<string>
  /** Everything closed at first, for large values. */
  readonly isClosed?: boolean
}

export function JsonView({ value, masked = NONE, isClosed = false }: JsonViewProps): ReactNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <div className="json" tabIndex={0}>
      <Node name={null} value={value} path="" depth={isClosed ? OPEN_DEPTH : 0} masked={masked} />
    </div>
  )
}

const NONE: ReadonlySet<string> = new Set()

interface NodeProps {
  readonly name: string | number | null
  readonly value: unknown
  readonly path: string
  readonly depth: number
  readonly masked: ReadonlySet<string>
}

function Node({ name, value, path, depth, masked }: NodeProps): ReactNode {
  const isBranch = typeof value === 'object' && value !== null && !(value instanceof ExactNumber)
  if (isBranch) return <Branch name={name} value={value} path={path} depth={depth} masked={masked} />
  return (
    <div className="json-leaf">
      <Name name={name} />
      {masked.has(path) ? (
        <span className="json-masked" title="Masked by the server">
          masked
        </span>
      ) : (
        <Leaf value={value} />
      )}
    </div>
  )
}

function Branch({
  name,
  value,
  path,
  depth,
  masked,
}: Omit<NodeProps, 'value'> & { readonly value: object }): ReactNode {
  const isList = Array.isArray(value)
  const entries: readonly (readonly [string | number, unknown])[] = isList
    ? value.map((each, index) => [index, each])
    : Object.entries(value)
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && entries.length <= CHILDREN_SHOWN)
  const [count, setCount] = useState(CHILDREN_SHOWN)
  const [left, right] = isList ? ['[', ']'] : ['{', '}']
  if (entries.length === 0) {
    return (
      <div className="json-leaf">
        <Name name={name} />
        <span className="json-mark">
          {left}
          {right}
        </span>
      </div>
    )
  }
  return (
    <div className="json-branch">
      <button type="button" className="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className="json-arrow" aria-hidden="true" data-open={isOpen || undefined} />
        <Name name={name} />
        <span className="json-mark">{left}</span>
        {isOpen ? null : (
          <>
            <span className="json-size">
              {countOf(entries.length, isList ? 'entry' : 'key').replace('entrys', 'entries')}
            </span>
            <span className="json-mark">{right}</span>
          </>
        )}
      </button>
      {isOpen ? (
        <>
          <div className="json-children">
            {entries.slice(0, count).map(([key, each]) => (
              <Node
                key={key}
                name={key}
                value={each}
                path={path === '' ? String(key) : `${path}.${key}`}
                depth={depth + 1}
                masked={masked}
              />
            ))}
            {entries.length > count ? (
              <button type="button" className="text-button" onClick={() => setCount(count + CHILDREN_SHOWN)}>
                Show {Math.min(CHILDREN_SHOWN, entries.length - count)} more of {entries.length}
              </button>
            ) : null}
          </div>
          <span className="json-mark json-end">{right}</span>
        </>
      ) : null}
    </div>
  )
}

function Name({ name }: { readonly name: string | number | null }): ReactNode {
  if (name === null) return null
  return (
    <>
      <span className={typeof name === 'number' ? 'json-index' : 'json-key'}>{name}</span>
      <span className="json-mark">: </span>
    </>
  )
}

function Leaf({ value }: { readonly value: unknown }): ReactNode {
  if (value instanceof ExactNumber) return <span className="json-number">{value.source}</span>
  if (typeof value === 'string') return <Text value={value} />
  if (typeof value === 'number') return <span className="json-number">{String(value)}</span>
  return <span className="json-word">{String(value)}</span>
}

function Text({ value }: { readonly value: string }): ReactNode {
  const [isWhole, setWhole] = useState(false)
  const address = webAddress(value)
  const written = JSON.stringify(value)
  if (address !== null) {
    return (
      <a className="json-text" href={address} target="_blank" rel="noopener noreferrer nofollow">
        {written}
      </a>
    )
  }
  if (written.length <= TEXT_SHOWN || isWhole) return <span className="json-text">{written}</span>
  return (
    <span className="json-text">
      {written.slice(0, TEXT_SHOWN)}…{' '}
      <button type="button" className="text-button" onClick={() => setWhole(true)}>
        all {countOf(value.length, 'character')}
      </button>
    </span>
  )
}
