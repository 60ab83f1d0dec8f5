// The memory store keeps every fact of the conformance suite.

import { describe, expect, test } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.js'
import { storeSuite } from '../../src/testing/store-suite/index.js'

describe('memory store', () => {
  storeSuite({ test, expect, openStore: async (clock) => memoryStore({ clock }) })
})
