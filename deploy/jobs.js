// The jobs of the worker in compose.yaml. Replace them with yours.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob } from 'holdfast'

const greet = defineJob('greet')

export const handlers = [greet.handle(async (_payload, { signal }) => sleep(100, 'hello', { signal }))]
