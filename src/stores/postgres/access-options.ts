// What users say about how PostgreSQL is reached. Apart from the code, because the types of connect() must not need those of the driver.

/** TLS of the connections to PostgreSQL. Texts are PEM. */
export interface TlsOptions {
  /** The certificates of the authorities that may have signed the server's. Default: those Node.js trusts. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[]
  /** The client's certificate and its key, where the server asks for them. */
  readonly cert?: string | Uint8Array
  readonly key?: string | Uint8Array
  /** What the key is encrypted with. */
  readonly passphrase?: string
  /** The name the server's certificate must have. Default: the host of the URL. */
  readonly servername?: string
  /** False takes any certificate: then anyone in between can read and change everything. Default true. */
  readonly rejectUnauthorized?: boolean
}

/** A password, or a function that gives one and is asked at each new connection. */
export type PasswordOption = string | (() => string | Promise<string>)

/** A pool of pg, as far as it is used. */
export interface UserPool {
  connect(): Promise<unknown>
  query(...query: never[]): unknown
  readonly totalCount: number
  readonly waitingCount: number
}

export interface AccessOptions {
  readonly ssl?: TlsOptions | boolean
  readonly password?: PasswordOption
}
