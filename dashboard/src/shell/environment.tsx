// The environment's name and colour, so that production is not mistaken for staging.

import type { ReactNode } from 'react'
import { useMe } from '../api/answers.js'

/** The colour when the browser knows it as one. It comes from configuration and goes into a style, nowhere else. */
function colourOf(text: string | null | undefined): string | null {
  return text && CSS.supports('color', text) ? text : null
}

export function EnvironmentBadge(): ReactNode {
  const environment = useMe()?.environment
  if (!environment) return null
  const colour = colourOf(environment.colour)
  return (
    <span className="environment" title={`Environment: ${environment.name}`}>
      <span className="dot" style={colour === null ? undefined : { backgroundColor: colour }} />
      {environment.name}
    </span>
  )
}

/** A line at the top of the window in the environment's colour. */
export function EnvironmentLine(): ReactNode {
  const colour = colourOf(useMe()?.environment?.colour)
  if (colour === null) return null
  return <div className="environment-line" style={{ backgroundColor: colour }} aria-hidden="true" />
}
