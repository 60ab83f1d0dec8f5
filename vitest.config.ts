import { defineConfig, type ViteUserConfig } from 'vitest/config'

const config: ViteUserConfig = defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    testTimeout: 20_000,
    hookTimeout: 120_000,
    pool: 'forks',
    // Two files at a time: real servers and processes share the machine with the tests that watch them. Three keep both cores busy all the time, and tests come late.
    maxWorkers: 2,
  },
})

export default config
