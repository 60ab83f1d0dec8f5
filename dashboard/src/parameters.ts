// The query of the page's address. Not the router's own reading, which decodes it twice: `%2541` would come out as A.

import { useMemo } from 'react'
import { useSearch } from 'wouter'

/** The parameters of the address as they were written into it. */
export function useParameters(): URLSearchParams {
  const changed = useSearch()
  // biome-ignore lint/correctness/useExhaustiveDependencies: read anew when the address has changed
  return useMemo(() => new URLSearchParams(location.search), [changed])
}
