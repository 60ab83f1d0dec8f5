// A cancel request: PostgreSQL ends the running statement of a connection when it is asked to over a second connection. That needs
// only the process id and the secret of the first.

import pg from 'pg'

/** The server answers by closing the connection; one that cannot be reached is not waited for. */
const WAIT_MS = 1_000

/** What the driver knows about a connected client. */
interface Connected {
  readonly host: string
  readonly port: number
  readonly ssl: unknown
  readonly processID: number
  readonly secretKey: number
}

/** The parts of the driver's connection that a cancel request uses. */
interface CancelWire {
  connect(port: number, host: string): void
  connect(path: string): void
  requestSsl(): void
  cancel(processId: number, secretKey: number): void
  once(event: 'connect' | 'sslconnect' | 'end', listener: () => void): void
  on(event: 'error', listener: () => void): void
  readonly stream: { destroy(): void }
}

/** Asks the server to end what `client` is running. Resolves when the server has taken note, failed to, or a second is over. */
export function requestCancel(client: pg.Client): Promise<void> {
  const { host, port, ssl, processID, secretKey } = client as unknown as Connected
  const wire = new pg.Connection({ ssl } as never) as unknown as CancelWire
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      wire.stream.destroy()
      resolve()
    }
    const timer = setTimeout(end, WAIT_MS)
    const cancel = () => wire.cancel(processID, secretKey)
    wire.once('connect', () => (ssl ? wire.requestSsl() : cancel()))
    wire.once('sslconnect', cancel)
    wire.once('end', end)
    wire.on('error', end)
    if (host.startsWith('/')) wire.connect(`${host}/.s.PGSQL.${port}`)
    else wire.connect(port, host)
  })
}
