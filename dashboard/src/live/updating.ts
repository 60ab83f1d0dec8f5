// Whether the page updates itself. The user may pause it, and a hidden tab pauses.

import { type Observable, observable } from '../observable.js'

/** False while the user has paused updates. */
export const isWanted: Observable<boolean> = observable(true)

/** False while the tab is hidden. */
const isVisible: Observable<boolean> = observable(document.visibilityState !== 'hidden')

/** True while the page updates itself. */
export const isUpdating: Observable<boolean> = observable(isVisible.get())

const settle = () => isUpdating.set(isWanted.get() && isVisible.get())
isWanted.watch(settle)
isVisible.watch(settle)
document.addEventListener('visibilitychange', () => isVisible.set(document.visibilityState !== 'hidden'))
