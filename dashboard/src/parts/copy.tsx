// Copying text, and commands to copy.

import { type ReactNode, useState } from 'react'
import { announce } from './announce.js'
import { Icon } from './icons.js'

/** A small button that copies a text. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }): ReactNode {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    if (!(await writeClipboard(text))) return announce('Copying is not allowed here')
    setCopied(true)
    announce('Copied')
    setTimeout(() => setCopied(false), 1_500)
  }
  return (
    <button type="button" className="icon-button copy" aria-label={label} title={label} onClick={() => void copy()}>
      <Icon name={isCopied ? 'check' : 'copy'} size={14} />
    </button>
  )
}

async function writeClipboard(text: string): Promise<boolean> {
  try {
    // Absent on pages served without TLS from another host.
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false
  }
}

/** The exact next command, ready to be copied. */
export function Command({ text }: { readonly text: string }): ReactNode {
  return (
    <div className="beside command">
      <code>
        <span className="command-prompt" aria-hidden="true">
          ${' '}
        </span>
        {text}
      </code>
      <CopyButton text={text} label="Copy the command" />
    </div>
  )
}
