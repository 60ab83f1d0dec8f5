// The worker runs somewhere that is not frozen. While there is nothing to do it looks at the database once in five minutes over one connection, so that
// a database which is paid by use can sleep; an enqueue of a function wakes it.

import { connect } from 'holdfast'
import { resize } from './function'

const holdfast = await connect(process.env.HOLDFAST_URL, { idle: 'sleep' })
const worker = holdfast.worker({ handlers: [resize.handle(async ({ image }) => ({ width: image.length }))] })
await worker.start()
console.log('ready')

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => holdfast.close())
