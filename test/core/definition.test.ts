import { describe, expect, test } from 'vitest'
import { DropJob, RetryJob } from '../../src/core/definition.js'

describe('what a handler may throw', () => {
  test('DropJob is an error with a name of its own', () => {
    const error = new DropJob('the account was closed')

    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({ name: 'DropJob', message: 'the account was closed' })
  })

  test('RetryJob carries its delay and its cause', () => {
    const cause = new Error('429')

    const error = new RetryJob('rate limited', { delay: '90s', cause })

    expect(error).toMatchObject({ name: 'RetryJob', message: 'rate limited', delay: '90s', cause })
  })

  test('RetryJob without a delay leaves the time to the policy', () => {
    const error = new RetryJob('busy')

    expect(error.delay).toBeNull()
    expect('cause' in error).toBe(false)
  })
})
