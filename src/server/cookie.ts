// The session's cookie. Scripts cannot read it, and browsers do not send it from other sites.

/** Where the cookie belongs. */
export interface CookiePlace {
  readonly host: string
  readonly basePath: string
  readonly isSecure: boolean
}

/** With the port in the name, because browsers share cookies between ports: two servers of one machine would sign each other's
 *  users out. */
function nameOf({ host }: CookiePlace): string {
  return `holdfast_session_${/:(\d+)$/.exec(host)?.[1] ?? 'default'}`
}

export function sessionCookie(place: CookiePlace, secret: string, lengthS: number): string {
  const secure = place.isSecure ? '; Secure' : ''
  const path = place.basePath === '' ? '/' : place.basePath
  return `${nameOf(place)}=${secret}; Path=${path}; Max-Age=${lengthS}; HttpOnly; SameSite=Strict${secure}`
}

/** Makes a browser delete the cookie. */
export function endedCookie(place: CookiePlace): string {
  return sessionCookie(place, '', 0)
}

/** The content of a request's cookie, or null. */
export function readSession(request: Request, place: CookiePlace): string | null {
  const name = `${nameOf(place)}=`
  for (const part of (request.headers.get('cookie') ?? '').split(';')) {
    const pair = part.trim()
    if (pair.startsWith(name)) return pair.slice(name.length)
  }
  return null
}
