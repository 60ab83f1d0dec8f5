// A NestJS module for Holdfast: one connection for the whole application, methods of providers as handlers, a drain at shutdown.

import {
  type BeforeApplicationShutdown,
  type DynamicModule,
  Inject,
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common'
import { DiscoveryModule, DiscoveryService } from '@nestjs/core'
import {
  type ConnectOptions,
  connect,
  type Handler,
  type Holdfast,
  type JobContext,
  type JobDefinition,
} from 'holdfast'

/** What providers are injected with: constructor(@Inject(HOLDFAST) private readonly holdfast: Holdfast). */
export const HOLDFAST = Symbol('holdfast')
const OPTIONS = Symbol('holdfast options')
const HANDLES = 'holdfast:handles'

export interface HoldfastModuleOptions {
  /** Default: HOLDFAST_URL or DATABASE_URL. */
  readonly url?: string
  readonly connect?: ConnectOptions
  /** How many jobs run concurrently here; 0 for an application that only enqueues. Default 16. */
  readonly concurrency?: number
}

/** Makes a method of a provider the handler of a job: @Handles(sendEmail) send(payload, ctx) { … }. */
export function Handles<Payload, Parsed, Result, Returned>(job: JobDefinition<Payload, Parsed, Result, Returned>) {
  type Method = (payload: Parsed, ctx: JobContext<Returned>) => Returned | Promise<Returned>
  return (_prototype: object, _name: string, method: TypedPropertyDescriptor<Method>): void => {
    Reflect.defineMetadata(HANDLES, job, method.value!)
  }
}

@Injectable()
class HoldfastLife implements OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown {
  constructor(
    @Inject(HOLDFAST) private readonly holdfast: Holdfast,
    @Inject(OPTIONS) private readonly options: HoldfastModuleOptions,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const { concurrency = 16 } = this.options
    const handlers = this.handlers()
    if (concurrency > 0 && handlers.length > 0) await this.holdfast.worker({ handlers, concurrency }).start()
  }

  /** First the jobs, while every provider that they use is still there. */
  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all(this.holdfast.localWorkers.map((worker) => worker.stop()))
  }

  async onApplicationShutdown(): Promise<void> {
    await this.holdfast.close()
  }

  private handlers(): Handler[] {
    return this.discovery.getProviders().flatMap(({ instance }) => {
      if (typeof instance !== 'object' || instance === null) return []
      const prototype = Object.getPrototypeOf(instance) ?? {}
      return Object.getOwnPropertyNames(prototype).flatMap((name) => {
        const method: unknown = Object.getOwnPropertyDescriptor(prototype, name)?.value
        const job = typeof method === 'function' ? (Reflect.getMetadata(HANDLES, method) as JobDefinition) : undefined
        return job === undefined ? [] : [job.handle((payload, ctx) => instance[name](payload, ctx))]
      })
    })
  }
}

@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a module of NestJS is a class
export class HoldfastModule {
  static forRoot(options: HoldfastModuleOptions = {}): DynamicModule {
    return {
      module: HoldfastModule,
      global: true,
      imports: [DiscoveryModule],
      providers: [
        { provide: OPTIONS, useValue: options },
        { provide: HOLDFAST, useFactory: () => connect(options.url, options.connect) },
        HoldfastLife,
      ],
      exports: [HOLDFAST],
    }
  }
}
