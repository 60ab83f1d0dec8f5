// The list of shortcuts, on `?`.

import type { ReactNode } from 'react'
import { useObservable } from '../observable.js'
import { Dialog } from '../parts/dialog.js'
import { shortcuts } from './shortcuts.js'

const GROUPS = ['Go to', 'List', 'Page'] as const

export function ShortcutsDialog({ onClose }: { readonly onClose: () => void }): ReactNode {
  const known = useObservable(shortcuts)
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose} isWide>
      <div className="shortcuts">
        {GROUPS.map((group) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl>
              {known
                .filter((shortcut, index) => shortcut.group === group && isLast(known, shortcut.keys, index))
                .map(({ keys, label }) => (
                  <div key={keys} className="shortcut">
                    <dt>{label}</dt>
                    <dd>
                      {keys.split(' ').map((key) => (
                        <kbd key={key}>{key}</kbd>
                      ))}
                    </dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  )
}

function isLast(known: readonly { readonly keys: string }[], keys: string, index: number): boolean {
  return known.findLastIndex((other) => other.keys === keys) === index
}
