// The dashboard of `holdfast dev`: on this machine alone, on its usual port or on any that is free.

import type { Holdfast } from '../../holdfast.js'
import type { Listening, Server, ServerEvent } from '../../server/index.js'
import { atPort, isTaken } from '../ports.js'
import { PORT_DEFAULT } from '../serve/options.js'
import { offerSignIn, type SignIn } from '../serve/sign-in.js'

export interface Dashboard {
  readonly url: string
  readonly signIn: SignIn
  /** What a reader should know about where it is, or null. */
  readonly note: string | null
  close(): Promise<void>
}

interface DashboardOptions {
  readonly port: number | undefined
  readonly log: (event: ServerEvent) => void
  /** True where what is printed is seen by a person and not kept. */
  readonly isTerminal: boolean
  /** Where to write the address that signs in, or null. */
  readonly signInFile: string | null
}

/** Serves the API and the dashboard of a queue. */
export async function openDashboard(
  holdfast: Holdfast,
  { port = PORT_DEFAULT, log, isTerminal, signInFile }: DashboardOptions,
): Promise<Dashboard> {
  const [{ createServer }, { createMetrics }] = await Promise.all([
    import('../../server/index.js'),
    import('../../metrics/index.js'),
  ])
  const server = createServer(holdfast, { metrics: createMetrics(holdfast), environment: { name: 'dev' }, log })
  const { url, port: taken } = await listenSomewhere(server, port)
  const signIn = await offerSignIn({ server, url, isTerminal, file: signInFile })
  return {
    url,
    signIn,
    note: taken === port || port === 0 ? null : `Port ${port} is taken by another program, so it is on ${taken}`,
    close: async () => {
      await signIn.close()
      await server.close()
    },
  }
}

async function listenSomewhere(server: Server, port: number): Promise<Listening> {
  return atPort({ port }, async () => {
    try {
      return await server.listen({ port })
    } catch (error) {
      if (!isTaken(error)) throw error
      return server.listen({ port: 0 })
    }
  })
}
