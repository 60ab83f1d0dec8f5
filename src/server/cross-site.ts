// Refuses changes that another site makes through a user's browser. Our own page and programs with a token may make them.

import type { CookiePlace } from './cookie.js'
import { Refusal } from './problem.js'

const SAFE = ['GET', 'HEAD', 'OPTIONS']

/** True for a method that changes nothing. Every other method, also an unknown one, counts as a change. */
export function isSafe(method: string): boolean {
  return SAFE.includes(method)
}

/** Raises unless a change comes from a page of this origin. A bearer token is exempt: no browser sends one by itself. */
export function checkOrigin(request: Request, place: Pick<CookiePlace, 'host' | 'isSecure'>): void {
  if (isSafe(request.method) || hasBearer(request)) return
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  const isOurs = origin === null ? site === 'same-origin' : isOriginOf(origin, place)
  if (isOurs && (site === null || site === 'same-origin')) return
  throw new Refusal(
    403,
    'cross_site',
    'a change must come from a page of this server, or carry `Authorization: Bearer …`: neither Sec-Fetch-Site nor Origin says that it does',
  )
}

function isOriginOf(origin: string, { host, isSecure }: Pick<CookiePlace, 'host' | 'isSecure'>): boolean {
  // Without TLS here, a proxy in front may still have it.
  return origin === `https://${host}` || (!isSecure && origin === `http://${host}`)
}

function hasBearer(request: Request): boolean {
  return /^bearer\s/i.test(request.headers.get('authorization') ?? '')
}

/** Raises unless the body of a change is JSON. A form cannot send JSON, and a script of another site needs permission to. */
export function checkContentType(request: Request): void {
  if (isSafe(request.method)) return
  const type = request.headers.get('content-type')
  // A program with a token may leave out both body and type; a browser always says what it sends.
  if (type === null && hasBearer(request) && !hasBody(request)) return
  if (type !== null && /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type)) return
  throw new Refusal(415, 'unsupported_media_type', 'send the body as `Content-Type: application/json`')
}

function hasBody(request: Request): boolean {
  const length = request.headers.get('content-length')
  if (request.headers.has('transfer-encoding')) return true
  return length !== null && length !== '0'
}
