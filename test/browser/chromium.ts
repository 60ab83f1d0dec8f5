// The real browser of the tests.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

/** Starts a browser without a window. Raises with what to do where there is none: these tests are never left out. */
export async function openBrowser(): Promise<Browser> {
  const script = join(import.meta.dirname, '../../scripts/browser.js')
  const { status, stdout, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr.trim())
  return chromium.launch({
    executablePath: stdout.trim(),
    // Chromium refuses to put root into its sandbox; and shared memory is scarce in containers.
    args: ['--disable-dev-shm-usage', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])],
    timeout: 60_000,
  })
}
