// The dashboard of `holdfast dev`: on this machine only, on the default port or any free one.

import type { Holdfast } from '../../holdfast.js'
import type { Listening, Server, ServerEvent } from '../../server/index.js'
import { atPort, isTaken, offerSignIn, openServer, PORT_DEFAULT, type SignIn } from '../serving.js'

export interface Dashboard {
  readonly url: string
  readonly signIn: SignIn
  /** Something to know about its address, or null. */
  readonly note: string | null
  close(): Promise<void>
}

interface DashboardOptions {
  readonly port: number | undefined
  readonly log: (event: ServerEvent) => void
  /** True where a person sees what is printed and nothing keeps it. */
  readonly isTerminal: boolean
  /** Where to write the address that signs in, or null. */
  readonly signInFile: string | null
}

/** Serves the API and the dashboard of a store. */
export async function openDashboard(
  holdfast: Holdfast,
  { port = PORT_DEFAULT, log, isTerminal, signInFile }: DashboardOptions,
): Promise<Dashboard> {
  const server = await openServer(holdfast, { environment: { name: 'dev' }, log })
  const { url, port: taken } = await listenSomewhere(server, port)
  const signIn = await offerSignIn({ server, url, isTerminal, file: signInFile })
  return {
    url,
    signIn,
    note: taken === port || port === 0 ? null : `Port ${port} is taken by another program, so it uses ${taken}`,
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
