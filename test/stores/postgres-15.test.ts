// The same facts on PostgreSQL 15, where Debian's server is installed, in a schema whose name must be quoted.

import { afterAll, describe, expect, test } from 'vitest'
import { storeSuite } from '../../src/testing/store-suite/index.js'
import { dropSchema, openCleanStore, openPeerStore } from '../support/postgres.js'

// Set by global-setup.ts. Without it there is no such server on this machine, and nothing to show: apt-get install postgresql.
const url = process.env.HOLDFAST_TEST_URL_15
const schema = 'order'

describe.skipIf(url === undefined)('PostgreSQL 15 store', () => {
  afterAll(() => dropSchema(url!, schema))

  storeSuite({
    test,
    expect,
    openStore: (clock) => openCleanStore(url!, schema, clock),
    openPeer: (clock) => openPeerStore(url!, schema, clock),
    skip: test.skip,
  })
})
