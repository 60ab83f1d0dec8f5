// What keeps job content from becoming code in the page: rules a reader can check, checked by a machine.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../../dashboard')
const files = readdirSync(ROOT, { recursive: true, encoding: 'utf8' }).filter((file) =>
  /\.(tsx?|css|html|js)$/.test(file),
)
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

function offences(pattern: RegExp, among: readonly string[]): string[] {
  return among.filter((file) => pattern.test(read(file)))
}

const code = files.filter((file) => /\.tsx?$/.test(file))

test('content is written into the page only as text', () => {
  expect(
    offences(/dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc/i, code),
  ).toEqual([])
})

test('no text becomes code', () => {
  expect(offences(/\beval\(|new Function\(|setTimeout\(\s*['"`]|javascript:/, code)).toEqual([])
})

test('the page has no inline script, style or handler, as its policy demands', () => {
  const page = read('index.html')

  expect(page).not.toMatch(/<style|style=|\son\w+=|<script(?![^>]*\ssrc=)/)
})

test('addresses in the page are relative, so that it can be mounted anywhere', () => {
  const addresses = [...read('index.html').matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!)

  expect(addresses.filter((address) => !address.startsWith('./') && address !== '/')).toEqual([])
})

test('nothing is loaded from elsewhere', () => {
  const styles = files.filter((file) => file.endsWith('.css'))

  expect(offences(/url\(|@font-face|@import\s+(?!"\.\/)/, styles)).toEqual([])
  expect(
    offences(
      /https?:\/\/(?!www\.w3\.org)/,
      code.filter((file) => file !== 'src/links.ts'),
    ),
  ).toEqual([])
})

test('links to foreign addresses go through the one check', () => {
  expect(
    offences(
      /href=\{(?!address\}|apiUrl)/,
      code.filter((file) => /<a\s/.test(read(file))),
    ),
  ).toEqual([])
})

test('no file is too long to read', () => {
  expect(files.filter((file) => read(file).split('\n').length > 350)).toEqual([])
})
