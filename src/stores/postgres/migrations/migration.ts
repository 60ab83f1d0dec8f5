/** One step of the schema. Its text is part of the program, not a file read at run time, so that it survives bundling. */
export interface Migration {
  readonly number: number
  readonly name: string
  /** SQL in which `:schema` stands for the schema's quoted name. Never changed once it was released: its hash is recorded. */
  readonly sql: string
}
