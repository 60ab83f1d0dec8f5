// The PostgreSQL store keeps every fact of the conformance suite.

import { afterAll, describe, expect, test } from 'vitest'
import { storeSuite } from '../../src/testing/store-suite/index.js'
import { dropSchema, openCleanStore, openPeerStore, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `store_suite_${process.pid}`

afterAll(() => dropSchema(url, schema))

describe('PostgreSQL store', () => {
  storeSuite({
    test,
    expect,
    openStore: (clock) => openCleanStore(url, schema, clock),
    openPeer: (clock) => openPeerStore(url, schema, clock),
    skip: test.skip,
  })
})
