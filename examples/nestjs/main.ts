// NestJS: enqueue from a provider, handle in a provider, drain at shutdown. An HTTP application does the same with NestFactory.create.

import 'reflect-metadata'
import assert from 'node:assert/strict'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { EmailsModule, Mailer, SignUps } from './emails'
import { HoldfastModule } from './holdfast.module'

@Module({ imports: [HoldfastModule.forRoot({ concurrency: 8 }), EmailsModule] })
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] })
app.enableShutdownHooks() // SIGTERM drains

const handle = await app.get(SignUps).signUp('ada@example.com')
const again = await app.get(SignUps).signUp('ada@example.com')
assert.deepEqual([handle.created, again.id === handle.id], [true, true])
assert.deepEqual(await handle.wait({ timeout: '20s' }), { sent: 1 })
assert.deepEqual(app.get(Mailer).sent, ['ada@example.com'])
console.log('sent, once')

// What was claimed is finished before the application is gone.
await app.get(SignUps).signUp('bob@example.com')
await app.close()
console.log('drained')
