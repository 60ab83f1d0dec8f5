// Builds the dashboard. scripts/build.js says where to: dist/web, from where the server serves it.

import { defineConfig, type UserConfig } from 'vite'

const config: UserConfig = defineConfig({
  root: import.meta.dirname,
  // Relative addresses: the path the server is mounted under is known only at run time.
  base: './',
  build: {
    emptyOutDir: true,
    target: 'es2022',
    // Everything is a file of its own: the content security policy knows no inline code.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 600,
  },
})

export default config
