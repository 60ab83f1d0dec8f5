// Where the API of this page is.

import { mountPathOf } from '../mount.js'

/** The path the page is mounted under: '' at the root. */
export const mountPath: string = mountPathOf(
  document.querySelector('base')?.getAttribute('href') ?? null,
  document.location.href,
)

/** The address of an API path such as `v1/jobs`. */
export function apiUrl(path: string): string {
  return `${mountPath}/${path}`
}
