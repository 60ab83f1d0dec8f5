// Where the dashboard is mounted. The server writes it into <base href>, so that one build serves under any path.

/**
 * The path before every address of ours, without a slash at its end: '' at the root. `href` is the attribute as written,
 * not its resolved form, because a strict `base-uri` policy makes a browser ignore the element but not what it says.
 */
export function mountPathOf(href: string | null, pageUrl: string): string {
  if (href === null) return ''
  let url: URL
  try {
    url = new URL(href, pageUrl)
  } catch {
    return ''
  }
  // Another origin there would send the session's requests elsewhere.
  if (url.origin !== new URL(pageUrl).origin) return ''
  return url.pathname.replace(/\/[^/]*$/, '').replace(/\/+$/, '')
}
