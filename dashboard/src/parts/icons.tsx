// The page's icons: lines on a grid of 16, in the colour of the text around them. They never carry meaning alone.

import type { ReactNode } from 'react'
import { ICON_PATHS, type IconName } from './icon-paths.js'

export type { IconName }

/** An icon beside a text that says the same. */
export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }): ReactNode {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={ICON_PATHS[name]} />
    </svg>
  )
}

/** The mark: a stem and the roots that hold it. */
export function Mark({ size = 22 }: { readonly size?: number }): ReactNode {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8.5" />
      <path d="M16 6v20M16 18c0 4.5-3 7-8 8M16 18c0 4.5 3 7 8 8M16 11c-3 0-5-1.6-5-4M16 14.5c3 0 5-1.6 5-4" />
    </svg>
  )
}
