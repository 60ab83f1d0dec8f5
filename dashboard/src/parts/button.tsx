// Buttons, and links that look like them.

import type { ButtonHTMLAttributes, ReactNode } from 'react'
import { Icon, type IconName } from './icons.js'

export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'type'> {
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
  className,
  disabled,
  ...rest
}: ButtonProps): ReactNode {
  return (
    <button
      type={type}
      className={`button button-${kind}${className === undefined ? '' : ` ${className}`}`}
      disabled={disabled === true || isBusy}
      aria-busy={isBusy || undefined}
      {...rest}
    >
      {isBusy ? <span className="spinner" aria-hidden="true" /> : icon === undefined ? null : <Icon name={icon} />}
      {children}
    </button>
  )
}

/** A button of one icon; its label is read aloud and shown as a title. */
export function IconButton({
  icon,
  label,
  className,
  ...rest
}: Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'type' | 'children'> & {
  readonly icon: IconName
  readonly label: string
}): ReactNode {
  return (
    <button
      type="button"
      className={`icon-button${className === undefined ? '' : ` ${className}`}`}
      aria-label={label}
      title={label}
      {...rest}
    >
      <Icon name={icon} />
    </button>
  )
}
