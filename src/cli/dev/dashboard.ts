// The dashboard of `holdfast dev`: on this machine alone, on its usual port or on any that is free.

import type { Holdfast } from '../../holdfast.js'
import type { Listening, Server, ServerEvent } from '../../server/index.js'
import { atPort, isTaken } from '../ports.js'
import { PORT_DEFAULT } from '../serve/options.js'

export interface Dashboard {
  readonly url: string
  /** Opens it and signs in, once. */
  readonly signInUrl: string
  /** What a reader should know about where it is, or null. */
  readonly note: string | null
  close(): Promise<void>
}

interface DashboardOptions {
  readonly port: number | undefined
  readonly log: (event: ServerEvent) => void
}

/** Serves the API and the dashboard of a queue. */
export async function openDashboard(
  holdfast: Holdfast,
  { port = PORT_DEFAULT, log }: DashboardOptions,
): Promise<Dashboard> {
  const [{ createServer }, { createMetrics }] = await Promise.all([
    import('../../server/index.js'),
    import('../../metrics/index.js'),
  ])
  const server = createServer(holdfast, { metrics: createMetrics(holdfast), environment: { name: 'dev' }, log })
  const { url, port: taken } = await listenSomewhere(server, port)
  return {
    url,
    signInUrl: `${url}/?token=${server.createToken()}`,
    note: taken === port || port === 0 ? null : `Port ${port} is taken by another program, so it is on ${taken}`,
    close: () => server.close(),
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
