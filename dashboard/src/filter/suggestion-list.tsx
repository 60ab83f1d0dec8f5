// What the filter bar offers, below it. The input keeps the focus and says which option is active.

import type { ReactNode } from 'react'
import type { Suggestion } from './suggest.js'

export interface SuggestionListProps {
  readonly id: string
  readonly options: readonly Suggestion[]
  readonly active: number
  readonly onTake: (option: Suggestion) => void
}

export function SuggestionList({ id, options, active, onTake }: SuggestionListProps): ReactNode {
  if (options.length === 0) return null
  return (
    <div className="suggestions">
      <div role="listbox" id={id} aria-label="Suggestions">
        {options.map((option, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input presses it by keyboard
          // biome-ignore lint/a11y/useFocusableInteractive: the input keeps the focus and names the active option
          <div
            key={option.label}
            id={`${id}-${index}`}
            className="suggestion"
            role="option"
            aria-selected={index === active}
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => onTake(option)}
          >
            <span className="suggestion-label">{option.label}</span>
            <span className="cut suggestion-hint">{option.hint}</span>
          </div>
        ))}
      </div>
      <div className="beside suggestions-foot" aria-hidden="true">
        <span className="key">↑</span>
        <span className="key">↓</span> choose <span className="key">tab</span> take <span className="key">↵</span>{' '}
        search
      </div>
    </div>
  )
}
