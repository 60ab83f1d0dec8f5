// An action that changes the system: busy while it runs, a message when it is done or refused.

import { useCallback, useRef, useState } from 'react'
import { messageOf } from '../api/request.js'
import { refreshAll } from '../api/resource.js'
import { toast } from './announce.js'

export interface Action {
  readonly isBusy: boolean
  /** Runs the work once and then shows `done`. Returns true on success. */
  run(work: () => Promise<unknown>, done: string | null): Promise<boolean>
}

export function useAction(): Action {
  const [isBusy, setBusy] = useState(false)
  const going = useRef(false)
  const run = useCallback(async (work: () => Promise<unknown>, done: string | null) => {
    // A second press of the same button while the first is under way.
    if (going.current) return false
    going.current = true
    setBusy(true)
    try {
      await work()
      if (done !== null) toast('done', done)
      return true
    } catch (error) {
      toast('failed', messageOf(error))
      return false
    } finally {
      going.current = false
      setBusy(false)
      refreshAll()
    }
  }, [])
  return { isBusy, run }
}
