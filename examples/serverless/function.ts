// A function that enqueues, as AWS Lambda and the like call it. Its process is frozen between calls and thrown away at any time, so nothing may run in
// the background, and its connections are few: each of a thousand such processes has its own.

import { connect, defineJob, type Holdfast } from 'holdfast'

export const resize = defineJob<{ image: string }, { width: number }>('resize')

// Made once for each process, at its first call, and kept for the next ones.
let connecting: Promise<Holdfast> | null = null

function holdfast(): Promise<Holdfast> {
  // Tables are made by a deploy (holdfast migrate), not by a thousand functions.
  connecting ??= connect(process.env.HOLDFAST_URL, { connections: 3, upkeep: false, migrate: false }).catch((error) => {
    connecting = null
    throw error
  })
  return connecting
}

export async function handler(event: { readonly images: readonly string[] }) {
  const jobs = await (await holdfast()).enqueueMany(
    resize,
    event.images.map((image) => ({ image })),
  )
  // Everything is durable here: the process may be frozen as soon as this returns.
  return { statusCode: 202, body: JSON.stringify({ ids: jobs.map(({ id }) => id) }) }
}
