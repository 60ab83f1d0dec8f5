// Providers of an application: one that enqueues, one with the handler, and what the handler is injected with.

import { Inject, Injectable, Module } from '@nestjs/common'
import { defineJob, type Holdfast, type JobContext } from 'holdfast'
import { Handles, HOLDFAST } from './holdfast.module'

export const sendEmail = defineJob<{ to: string }, { sent: number }>('send_email', { maxAttempts: 5 })

@Injectable()
export class Mailer {
  readonly sent: string[] = []

  async send(to: string): Promise<void> {
    this.sent.push(to)
  }
}

@Injectable()
export class EmailJobs {
  constructor(@Inject(Mailer) private readonly mailer: Mailer) {}

  @Handles(sendEmail)
  async send({ to }: { to: string }, ctx: JobContext): Promise<{ sent: number }> {
    await this.mailer.send(to)
    ctx.log(`sent to ${to}`)
    return { sent: this.mailer.sent.length }
  }
}

@Injectable()
export class SignUps {
  constructor(@Inject(HOLDFAST) private readonly holdfast: Holdfast) {}

  signUp(email: string) {
    return this.holdfast.enqueue(sendEmail, { to: email }, { idempotencyKey: `welcome:${email}` })
  }
}

@Module({ providers: [Mailer, EmailJobs, SignUps] })
export class EmailsModule {}
