// The sign-in: paste the token that the server printed when it started.

import { type FormEvent, type ReactNode, useState } from 'react'
import { isSignedIn } from '../../api/health.js'
import { ApiError, change, messageOf } from '../../api/request.js'
import { refreshAll } from '../../api/resource.js'
import type { SignInBody } from '../../api/types.js'
import { Button } from '../../parts/button.js'
import { Command } from '../../parts/copy.js'
import { InputField } from '../../parts/field.js'
import { Mark } from '../../parts/icons.js'

export function SignInPage(): ReactNode {
  const [token, setToken] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setProblem(null)
    try {
      const body: SignInBody = { token: tokenOf(token) }
      await change('POST', 'v1/session', body)
      isSignedIn.set(true)
      refreshAll()
    } catch (error) {
      const isRefused = error instanceof ApiError && (error.status === 401 || error.status === 403)
      setProblem(isRefused ? 'This token is unknown or expired.' : messageOf(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <main className="gate">
      <form className="below gate-card" onSubmit={(event) => void submit(event)}>
        <Mark size={40} />
        <h1>Sign in to Holdfast</h1>
        <p>Paste the token that the server printed when it started, the whole address it printed, or an API key.</p>
        <InputField
          label="Token"
          problem={problem}
          type="password"
          autoComplete="current-password"
          spellCheck={false}
          value={token}
          onText={setToken}
        />
        <Button type="submit" kind="primary" isBusy={isBusy} disabled={token.trim() === ''}>
          Sign in
        </Button>
        <details>
          <summary>Where is the token?</summary>
          <p>
            In the terminal, on the line with the address. A server without a configured token prints a new one each
            time it starts:
          </p>
          <Command text="npx holdfast server" />
        </details>
      </form>
    </main>
  )
}

/** The token itself, also when the whole printed address was pasted. */
function tokenOf(text: string): string {
  const trimmed = text.trim()
  if (!/^https?:/.test(trimmed)) return trimmed
  try {
    return new URL(trimmed).searchParams.get('token') ?? trimmed
  } catch {
    return trimmed
  }
}
