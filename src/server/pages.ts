// Serves the dashboard: its built files, and its page with the mount path for every other path.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join, relative, sep } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { Refusal } from './problem.js'
import { WEB } from './web.js'

const BASE_MARK = '<base href="/" />'
const FILES_MAX = 500
/** Pages that end in a name. It may hold a dot, like the name of a file. */
const NAMED_PAGE = /^\/(?:jobs|queues)\//

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
}

interface PageFile {
  readonly body: Uint8Array<ArrayBuffer>
  readonly type: string
}

/** The files of the built dashboard, read once. A request is looked up by name and never becomes a path of the file system. */
export class Pages {
  readonly #folder: string | false | null
  #files: ReadonlyMap<string, PageFile> | null = null

  /** Null is the dashboard of this package, false none. */
  constructor(folder: string | false | null) {
    this.#folder = folder
  }

  /** The file of that path, or the page. Raises 404. */
  answer(path: string, basePath: string): Response {
    const files = this.#load()
    const file = files.get(path.slice(1))
    if (file !== undefined && path !== '/index.html') {
      // The names of built files change with their content.
      const isNamedByContent = path.startsWith('/assets/')
      const caching = isNamedByContent ? 'public, max-age=31536000, immutable' : 'no-cache'
      return new Response(file.body, { headers: { 'content-type': file.type, 'cache-control': caching } })
    }
    const page = files.get('index.html')
    const isMissingFile = extname(path) !== '' && !NAMED_PAGE.test(path)
    if (page === undefined || isMissingFile) throw new Refusal(404, 'not_found', 'there is nothing here')
    const html = Buffer.from(page.body).toString('utf8').replace(BASE_MARK, `<base href="${basePath}/" />`)
    return new Response(html, { headers: { 'content-type': TYPES['.html']! } })
  }

  #load(): ReadonlyMap<string, PageFile> {
    this.#files ??= this.#read()
    return this.#files
  }

  #read(): ReadonlyMap<string, PageFile> {
    if (this.#folder === false) return new Map()
    if (this.#folder === null) return WEB === null ? new Map() : unpack(WEB)
    return existsSync(this.#folder) ? readFiles(this.#folder) : new Map()
  }
}

function unpack(web: string): ReadonlyMap<string, PageFile> {
  const files = JSON.parse(brotliDecompressSync(Buffer.from(web, 'base64')).toString('utf8')) as Record<string, string>
  return new Map(
    Object.entries(files).map(([path, content]) => [
      path,
      { body: new Uint8Array(Buffer.from(content, 'utf8')), type: TYPES[extname(path)]! },
    ]),
  )
}

function readFiles(folder: string): ReadonlyMap<string, PageFile> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  const files = new Map<string, PageFile>()
  for (const entry of entries) {
    const type = TYPES[extname(entry.name)]
    if (!entry.isFile() || type === undefined || files.size >= FILES_MAX) continue
    const path = join(entry.parentPath, entry.name)
    files.set(relative(folder, path).split(sep).join('/'), { body: new Uint8Array(readFileSync(path)), type })
  }
  return files
}
