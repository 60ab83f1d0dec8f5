// The session's cookie: never seen by scripts, never sent along from other sites.

/** Where the cookie belongs. */
export interface CookiePlace {
  readonly host: string
  readonly basePath: string
  readonly isSecure: boolean
}

/** Cookies know no ports: without it in the name, two servers of one machine would sign each other's users out. */
function nameOf({ host }: CookiePlace): string {
  return `holdfast_session_${/:(\d+)$/.exec(host)?.[1] ?? 'default'}`
}

export function sessionCookie(place: CookiePlace, secret: string, lengthS: number): string {
  const secure = place.isSecure ? '; Secure' : ''
  const path = place.basePath === '' ? '/' : place.basePath
  return `${nameOf(place)}=${secret}; Path=${path}; Max-Age=${lengthS}; HttpOnly; SameSite=Strict${secure}`
}

/** What makes a browser forget it. */
export function endedCookie(place: CookiePlace): string {
  return sessionCookie(place, '', 0)
}

/** What the cookie of a request says, or null. */
export function readSession(request: Request, place: CookiePlace): string | null {
  const name = `${nameOf(place)}=`
  for (const part of (request.headers.get('cookie') ?? '').split(';')) {
    const pair = part.trim()
    if (pair.startsWith(name)) return pair.slice(name.length)
  }
  return null
}
