// The filter bar: one line of the filter language, with keys and values offered while typing.

import { type KeyboardEvent, type ReactNode, type RefObject, useEffect, useId, useRef, useState } from 'react'
import { useShortcut } from '../keys/shortcuts.js'
import { IconButton } from '../parts/button.js'
import { Icon } from '../parts/icons.js'
import { type KnownNames, type Suggestion, suggest, take } from './suggest.js'
import { SuggestionList } from './suggestion-list.js'

export interface FilterBarProps {
  readonly filter: string
  readonly onApply: (filter: string) => void
  readonly known: KnownNames
  readonly onBegin: () => void
  /** What the server said about the filter, when it refused it. */
  readonly problem: { readonly text: string; readonly position: number | null } | null
  readonly hasFocus: boolean
}

export function FilterBar(props: FilterBarProps): ReactNode {
  const { filter, onBegin, problem, hasFocus } = props
  const input = useRef<HTMLInputElement>(null)
  const listId = useId()
  const typing = useTyping(props, input)
  useEffect(() => {
    if (hasFocus) input.current?.focus()
  }, [hasFocus])
  useShortcut('/', 'Filter jobs', 'Page', () => {
    input.current?.focus()
    input.current?.select()
  })
  const { text, options, active } = typing
  return (
    <div className="filter">
      <search className="beside filter-bar" data-problem={problem !== null || undefined}>
        <Icon name="search" />
        <input
          ref={input}
          type="text"
          role="combobox"
          className="filter-input"
          aria-label="Filter jobs"
          aria-expanded={options.length > 0}
          aria-controls={listId}
          aria-autocomplete="list"
          aria-activedescendant={active >= 0 ? `${listId}-${active}` : undefined}
          aria-invalid={problem !== null || undefined}
          aria-describedby={problem === null ? undefined : `${listId}-problem`}
          placeholder='state:dead queue:email type:send_* error:"timeout" created:<1h'
          value={text}
          maxLength={1_000}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          onFocus={() => {
            onBegin()
            typing.open()
          }}
          onBlur={typing.close}
          onChange={(event) => typing.change(event.target.value, event.target.selectionStart)}
          onSelect={typing.follow}
          onKeyDown={typing.press}
        />
        {text === '' ? (
          <span className="key" aria-hidden="true">
            /
          </span>
        ) : (
          <IconButton icon="close" label="Clear the filter" onClick={() => typing.apply('')} />
        )}
      </search>
      <SuggestionList id={listId} options={options} active={active} onTake={typing.accept} />
      {problem === null ? null : <FilterProblem id={`${listId}-problem`} filter={filter} {...problem} />}
    </div>
  )
}

interface Typing {
  readonly text: string
  readonly options: readonly Suggestion[]
  /** Which option the arrows have chosen; -1 for none. */
  readonly active: number
  open(): void
  close(): void
  change(text: string, caret: number | null): void
  /** The caret moved. */
  follow(): void
  press(event: KeyboardEvent): void
  accept(option: Suggestion): void
  apply(text: string): void
}

function useTyping({ filter, onApply, known }: FilterBarProps, input: RefObject<HTMLInputElement | null>): Typing {
  const [text, setText] = useState(filter)
  const [caret, setCaret] = useState(filter.length)
  const [isOpen, setOpen] = useState(false)
  const [active, setActive] = useState(-1)
  useEffect(() => setText(filter), [filter])
  const suggestions = suggest(text, caret, known)
  const options = isOpen ? suggestions.options : []
  const follow = () => setCaret(input.current?.selectionStart ?? text.length)
  const apply = (next: string) => {
    setOpen(false)
    setActive(-1)
    onApply(next.trim())
  }
  const accept = (option: Suggestion) => {
    const taken = take(text, suggestions, option)
    setText(taken.text)
    setCaret(taken.caret)
    setActive(-1)
    // After React has written the value, or the caret would be put at its end.
    requestAnimationFrame(() => {
      input.current?.focus()
      input.current?.setSelectionRange(taken.caret, taken.caret)
    })
  }
  const press = (event: KeyboardEvent) => {
    const count = options.length
    const chosen = options[active]
    if (event.key === 'ArrowDown' && count > 0) setActive((active + 1) % count)
    else if (event.key === 'ArrowUp' && count > 0) setActive((active - 1 + count) % count)
    else if (event.key === 'Tab' && chosen !== undefined) accept(chosen)
    else if (event.key === 'Enter') chosen === undefined ? apply(text) : accept(chosen)
    else if (event.key === 'Escape') isOpen ? setOpen(false) : input.current?.blur()
    else return
    event.preventDefault()
  }
  const change = (next: string, position: number | null) => {
    setText(next)
    setCaret(position ?? next.length)
    setOpen(true)
    setActive(-1)
  }
  const open = () => {
    setOpen(true)
    follow()
  }
  return { text, options, active, open, close: () => setOpen(false), change, follow, press, accept, apply }
}

function FilterProblem({
  id,
  filter,
  text,
  position,
}: {
  readonly id: string
  readonly filter: string
  readonly text: string
  readonly position: number | null
}): ReactNode {
  return (
    <div className="filter-problem" id={id} role="alert">
      {position === null ? null : (
        <code>
          {filter.slice(0, position)}
          <mark>{filter.slice(position) || ' '}</mark>
        </code>
      )}
      {text}
    </div>
  )
}
