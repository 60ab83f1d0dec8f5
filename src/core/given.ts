// Options that were given. With exactOptionalPropertyTypes one that was not given must be absent, not undefined.

/** The same options without those that are undefined. */
export function given<Options extends object>(options: Options): Given<Options> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Given<Options>
}

type Given<Options> = { readonly [Key in keyof Options]?: Exclude<Options[Key], undefined> }
