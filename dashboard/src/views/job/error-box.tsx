// An error with its stack, which is shown on request.

import { type ReactNode, useState } from 'react'
import type { JobError } from '../../api/types.js'
import { CopyButton } from '../../parts/copy.js'

export function ErrorBox({
  error,
  isOpen = false,
}: {
  readonly error: JobError
  readonly isOpen?: boolean
}): ReactNode {
  const [isShown, setShown] = useState(isOpen)
  const stack = stackOf(error)
  return (
    <div className="below error-box">
      <div className="beside error-head">
        <span className="error-name">{error.name}</span>
        {error.code === undefined ? null : <span className="tag">{error.code}</span>}
        <CopyButton text={error.stack ?? `${error.name}: ${error.message}`} label="Copy the error" />
      </div>
      <p className="error-message">{error.message}</p>
      {stack === null ? null : (
        <>
          <button type="button" className="text-button" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
            {isShown ? 'Hide the stack' : 'Show the stack'}
          </button>
          {isShown ? (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
            <pre className="stack" tabIndex={0}>
              {stack.map((line, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: lines of a stack never move
                <span key={index} data-foreign={/node_modules|node:internal/.test(line) || undefined}>
                  {line}
                  {'\n'}
                </span>
              ))}
            </pre>
          ) : null}
        </>
      )}
    </div>
  )
}

/** The frames of a stack, without the message that already stands above. */
function stackOf({ stack }: JobError): readonly string[] | null {
  if (stack === undefined || stack === '') return null
  const lines = stack.split('\n')
  const first = lines.findIndex((line) => /^\s+at /.test(line))
  return first === -1 ? lines : lines.slice(first).map((line) => line.trim())
}
