// The leases a worker holds, in memory that its heartbeat thread can read while the main thread is busy or blocked.
//
// Each lease has a slot. A slot's version is odd while it is held and even while it is free, and its fields change only
// while it is free: a reader that finds the same odd version before and after reading has read one lease, not two halves.

import type { Lease } from '../core/job.js'

const ID_BYTES = 36
// Bytes of one slot: fence, start and timeout as float64, the id, and version and queue as int32. The queue is its number in the list
// of the worker's queues, which never changes.
const FENCE = 0
const STARTED = 1
const TIMEOUT = 2
const ID = 24
const VERSION = 60
const QUEUE = 64
const SLOT_BYTES = 72

// Bytes in front of the slots: the main thread's time as float64, the count of its ticks as int32, and how many slots, from the
// first on, have ever been used as int32.
const TICK_TIME = 0
const TICK_COUNT = 2
const USED = 3
const HEAD_BYTES = 64

/** What the heartbeat needs to know of one lease. */
export interface HeldLease extends Lease {
  /** When its handler started by the main thread's monotonic clock, or null while it waits or after it ended. */
  readonly startedMs: number | null
  /** How long its handler may run, or null without a bound. */
  readonly timeoutMs: number | null
}

/** A table for a fixed number of leases. The main thread writes, any thread reads. */
export class LeaseTable {
  readonly buffer: SharedArrayBuffer
  readonly queues: readonly string[]
  readonly #bytes: Uint8Array
  readonly #floats: Float64Array
  readonly #ints: Int32Array
  readonly #free: number[]
  readonly #numbers: ReadonlyMap<string, number>

  constructor(buffer: SharedArrayBuffer, queues: readonly string[]) {
    this.buffer = buffer
    this.queues = queues
    this.#numbers = new Map(queues.map((queue, number) => [queue, number]))
    this.#bytes = new Uint8Array(buffer)
    this.#floats = new Float64Array(buffer)
    this.#ints = new Int32Array(buffer)
    const slots = (buffer.byteLength - HEAD_BYTES) / SLOT_BYTES
    // Low slots are taken first, so that a table much larger than its use stays out of the caches.
    this.#free = Array.from({ length: slots }, (_, index) => slots - 1 - index)
  }

  static withRoomFor(slots: number, queues: readonly string[]): LeaseTable {
    return new LeaseTable(new SharedArrayBuffer(HEAD_BYTES + slots * SLOT_BYTES), queues)
  }

  /** How many more leases fit. */
  get room(): number {
    return this.#free.length
  }

  /** Puts a lease into a slot and returns the slot's number. The caller has looked at `room`. */
  hold(lease: Lease): number {
    const queue = this.#numbers.get(lease.queue)
    if (queue === undefined)
      throw new RangeError(`job ${lease.id} is of queue "${lease.queue}", which this worker does not serve`)
    const slot = this.#free.pop()
    if (slot === undefined) throw new RangeError('the lease table is full: more was claimed than there was room for')
    const at = HEAD_BYTES + slot * SLOT_BYTES
    for (let index = 0; index < ID_BYTES; index++) this.#bytes[at + ID + index] = lease.id.charCodeAt(index)
    this.#floats[at / 8 + FENCE] = lease.fence
    this.#ints[(at + QUEUE) / 4] = queue
    this.#floats[at / 8 + STARTED] = Number.NaN
    this.#floats[at / 8 + TIMEOUT] = Number.NaN
    Atomics.add(this.#ints, (at + VERSION) / 4, 1)
    if (slot >= this.#ints[USED]!) Atomics.store(this.#ints, USED, slot + 1)
    return slot
  }

  /** Says that the handler of a held lease started, and how long it may run. */
  start(slot: number, startedMs: number, timeoutMs: number | null): void {
    const at = HEAD_BYTES + slot * SLOT_BYTES
    this.#floats[at / 8 + TIMEOUT] = timeoutMs ?? Number.NaN
    this.#floats[at / 8 + STARTED] = startedMs
  }

  /** Frees a slot: its lease is no longer extended. */
  drop(slot: number): void {
    Atomics.add(this.#ints, (HEAD_BYTES + slot * SLOT_BYTES + VERSION) / 4, 1)
    this.#free.push(slot)
  }

  /** All leases held now. */
  read(): HeldLease[] {
    const held: HeldLease[] = []
    const end = HEAD_BYTES + Atomics.load(this.#ints, USED) * SLOT_BYTES
    for (let at = HEAD_BYTES; at < end; at += SLOT_BYTES) {
      const version = Atomics.load(this.#ints, (at + VERSION) / 4)
      if ((version & 1) === 0) continue
      const lease = this.#readSlot(at)
      if (Atomics.load(this.#ints, (at + VERSION) / 4) === version) held.push(lease)
    }
    return held
  }

  #readSlot(at: number): HeldLease {
    return {
      id: String.fromCharCode(...this.#bytes.subarray(at + ID, at + ID + ID_BYTES)),
      fence: this.#floats[at / 8 + FENCE]!,
      queue: this.queues[this.#ints[(at + QUEUE) / 4]!]!,
      startedMs: numberOrNull(this.#floats[at / 8 + STARTED]!),
      timeoutMs: numberOrNull(this.#floats[at / 8 + TIMEOUT]!),
    }
  }

  /** The main thread says that it is alive, and what time it has. */
  tick(nowMs: number): void {
    this.#floats[TICK_TIME] = nowMs
    Atomics.add(this.#ints, TICK_COUNT, 1)
  }

  /** The main thread's last sign of life. */
  lastTick(): { readonly count: number; readonly atMs: number } {
    const count = Atomics.load(this.#ints, TICK_COUNT)
    return { count, atMs: this.#floats[TICK_TIME]! }
  }
}

function numberOrNull(value: number): number | null {
  return Number.isNaN(value) ? null : value
}
