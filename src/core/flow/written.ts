// Settings of flow control as users write them: what resolve.ts reads back as the same settings. What is the default is left out.

import { writeDuration } from '../duration.js'
import type { BreakerSettings } from './breaker.js'
import type {
  BreakerOptions,
  GroupOptions,
  GroupOverrideOptions,
  NamedLimitOptions,
  QueueFlowOptions,
  RateOption,
} from './resolve.js'
import type { GroupOverride, GroupSettings, LimitSettings, QueueFlow, Rate } from './settings.js'

const UNITS = { 1000: 's', 60000: 'm', 3600000: 'h', 86400000: 'd' } as const

/** A rate: `'100/s'` where that says all of it. */
function writeRate({ limit, perMs, burst, counts }: Rate): RateOption {
  const unit = UNITS[perMs as keyof typeof UNITS]
  if (unit !== undefined && burst === limit && counts === 'starts') return `${limit}/${unit}`
  return {
    limit,
    per: writeDuration(perMs),
    ...(burst === limit ? {} : { burst }),
    ...(counts === 'cost' ? { counts } : {}),
  }
}

/** A breaker, with all of its settings; the longest cool-down where it has one. */
export function writeBreaker(settings: BreakerSettings): BreakerOptions {
  const { failures, of, withinMs, cooldownMs, cooldownMaxMs, probes } = settings
  const most = cooldownMaxMs === undefined ? {} : { cooldownMax: writeDuration(cooldownMaxMs) }
  return { failures, of, within: writeDuration(withinMs), cooldown: writeDuration(cooldownMs), ...most, probes }
}

export function writeLimit({ concurrency, rate, adaptive, breaker }: LimitSettings): NamedLimitOptions {
  const most = concurrency ?? adaptive
  return {
    ...(most === null ? {} : { concurrency: most }),
    ...(rate === null ? {} : { rate: writeRate(rate) }),
    ...(breaker === null ? {} : { breaker: writeBreaker(breaker) }),
  }
}

export function writeQueueFlow({ concurrency, rate, groups, maxDepth, onFull, agingMs }: QueueFlow): QueueFlowOptions {
  const each = writeGroups(groups)
  return {
    ...(concurrency === null ? {} : { concurrency }),
    ...(rate === null ? {} : { rate: writeRate(rate) }),
    ...(maxDepth === null ? {} : { maxDepth }),
    ...(onFull === 'reject' ? {} : { onFull }),
    ...(agingMs === null ? {} : { aging: writeDuration(agingMs) }),
    ...(Object.keys(each).length === 0 ? {} : { groups: each }),
  }
}

function writeGroups({ concurrency, rate, ordered, onRetry, onDead, maxDepth }: GroupSettings): GroupOptions {
  return {
    ...(concurrency === null ? {} : { concurrency }),
    ...(rate === null ? {} : { rate: writeRate(rate) }),
    ...(ordered ? { ordered } : {}),
    ...(ordered && onRetry !== 'wait' ? { onRetry } : {}),
    ...(ordered && onDead !== 'continue' ? { onDead } : {}),
    ...(maxDepth === null ? {} : { maxDepth }),
  }
}

export function writeOverride({ concurrency, rate, weight }: GroupOverride): GroupOverrideOptions {
  return {
    ...(concurrency === null ? {} : { concurrency }),
    ...(rate === null ? {} : { rate: writeRate(rate) }),
    ...(weight === 1 ? {} : { weight }),
  }
}
