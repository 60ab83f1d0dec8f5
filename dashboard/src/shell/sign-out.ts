// Ends the session of this browser.

import { isSignedIn } from '../api/health.js'
import { change, messageOf } from '../api/request.js'
import { toast } from '../parts/announce.js'

export async function signOut(): Promise<void> {
  try {
    await change('DELETE', 'v1/session')
    isSignedIn.set(false)
  } catch (error) {
    toast('failed', messageOf(error))
  }
}
