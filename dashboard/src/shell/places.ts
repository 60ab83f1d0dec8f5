// The pages one can go to, in the order of the navigation.

import type { IconName } from '../parts/icon-paths.js'

export interface Place {
  readonly path: string
  readonly title: string
  readonly icon: IconName
  /** Goes there after `g`. */
  readonly key: string
  /** On a phone: in the bar at the bottom, or behind "More". */
  readonly isMain: boolean
}

export const PLACES: readonly Place[] = [
  { path: '/', title: 'Overview', icon: 'overview', key: 'o', isMain: true },
  { path: '/jobs', title: 'Jobs', icon: 'jobs', key: 'j', isMain: true },
  { path: '/queues', title: 'Queues', icon: 'queues', key: 'q', isMain: true },
  { path: '/limits', title: 'Limits', icon: 'limits', key: 'l', isMain: false },
  { path: '/dead', title: 'Dead letters', icon: 'dead', key: 'd', isMain: true },
  { path: '/schedules', title: 'Schedules', icon: 'schedules', key: 's', isMain: false },
  { path: '/workers', title: 'Workers', icon: 'workers', key: 'w', isMain: false },
  { path: '/bulk', title: 'Bulk actions', icon: 'bulk', key: 'b', isMain: false },
  { path: '/audit', title: 'Audit', icon: 'audit', key: 'a', isMain: false },
]

/** True when the place is the one that an address belongs to. */
export function isAt(place: Place, location: string): boolean {
  return place.path === '/' ? location === '/' : location === place.path || location.startsWith(`${place.path}/`)
}
