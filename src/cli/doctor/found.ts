// What one check of `doctor` found.

export type Level = 'ok' | 'warning' | 'failed'

export interface Found {
  readonly level: Level
  /** For people. */
  readonly text: string
  /** What to run, SQL or a command; empty when nothing is wrong. */
  readonly fix: readonly string[]
}

export const ok = (text: string): Found => ({ level: 'ok', text, fix: [] })
export const warning = (text: string, ...fix: string[]): Found => ({ level: 'warning', text, fix })
export const failed = (text: string, ...fix: string[]): Found => ({ level: 'failed', text, fix })
