// Buttons, and links that look like them.

import type { ButtonHTMLAttributes, ReactNode } from 'react'
import { Icon, type IconName } from './icons.js'

export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'type' | 'className'> {
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  readonly icon?: IconName
  readonly type?: 'button' | 'submit'
  readonly isBusy?: boolean
}

export function Button({
  kind = 'plain',
  icon,
  type = 'button',
  isBusy = false,
  children,
  disabled,
  ...rest
}: ButtonProps): ReactNode {
  return (
    <button
      type={type}
      className={`button button-${kind}`}
      disabled={disabled === true || isBusy}
      aria-busy={isBusy || undefined}
      {...rest}
    >
      {isBusy ? <span className="spinner" aria-hidden="true" /> : icon === undefined ? null : <Icon name={icon} />}
      {children}
    </button>
  )
}

/** Shows and hides what belongs to a row; the key e presses it too. */
export function ExpandButton({
  isOpen,
  onToggle,
  children,
}: {
  readonly isOpen: boolean
  readonly onToggle: () => void
  readonly children: ReactNode
}): ReactNode {
  return (
    <button type="button" className="text-button" data-expand aria-expanded={isOpen} onClick={onToggle}>
      {children}
    </button>
  )
}

/** A button of one icon; its label is read aloud and shown as a title. */
export function IconButton({
  icon,
  label,
  ...rest
}: Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'type' | 'className' | 'children'> & {
  readonly icon: IconName
  readonly label: string
}): ReactNode {
  return (
    <button type="button" className="icon-button" aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  )
}
