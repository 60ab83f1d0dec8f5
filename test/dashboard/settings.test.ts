import { expect, test } from 'vitest'
import { draftOf, problemsOf, settingsOf } from '../../dashboard/src/views/queues/settings-draft.js'
import { resolveQueueSettings } from '../../src/client/job-actions.js'
import { RETRY_DEFAULTS } from '../../src/core/retry.js'

const full = {
  limits: {
    maxAttempts: 10,
    timeoutMs: 30_000,
    maxAgeMs: null,
    retry: { ...RETRY_DEFAULTS, backoff: 'linear' as const, capMs: 300_000 },
  },
  retentionMs: 259_200_000,
}

test('unchanged settings are saved as they were', () => {
  for (const settings of [
    full,
    { limits: {} },
    { limits: { retry: { ...RETRY_DEFAULTS, backoff: [1_000, 5_000] } } },
  ]) {
    const sent = settingsOf(draftOf(settings), settings)

    expect(resolveQueueSettings(sent)).toMatchObject(settings)
  }
})

test('an emptied field is left out, and "none" means no limit', () => {
  const draft = { ...draftOf(full), maxAttempts: '', timeout: 'none', maxAge: ' ', retention: '1h' }

  const sent = settingsOf(draft, full)

  expect(sent).toMatchObject({ timeout: null, retention: 3_600_000 })
  expect(sent).not.toHaveProperty('maxAttempts')
  expect(sent).not.toHaveProperty('maxAge')
})

test('a mistake is shown beside its field', () => {
  const draft = { ...draftOf(full), maxAttempts: '0', timeout: 'soon', retention: 'none' }

  const problems = problemsOf(draft)

  expect(Object.entries(problems).flatMap(([field, problem]) => (problem === null ? [] : [field]))).toEqual([
    'maxAttempts',
    'timeout',
    'retention',
  ])
})
