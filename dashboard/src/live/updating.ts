// Whether the page keeps itself fresh: a person may pause it, and a hidden tab pauses itself.

import { type Observable, observable } from '../observable.js'

/** True until somebody presses pause. */
export const isWanted: Observable<boolean> = observable(true)

/** False while the tab is hidden: nobody looks, so nothing is asked. */
const isVisible: Observable<boolean> = observable(document.visibilityState !== 'hidden')

/** True while the page keeps itself fresh. */
export const isUpdating: Observable<boolean> = observable(isVisible.get())

const settle = () => isUpdating.set(isWanted.get() && isVisible.get())
isWanted.watch(settle)
isVisible.watch(settle)
document.addEventListener('visibilitychange', () => isVisible.set(document.visibilityState !== 'hidden'))
