// Loaded before everything else in a process whose wall clock is to be wrong: shifts Date by HOLDFAST_SKEW_MS.

const shiftMs = Number(process.env.HOLDFAST_SKEW_MS)
const RealDate = Date
const now = (): number => RealDate.now() + shiftMs

class WrongDate extends RealDate {
  constructor(...parts: [] | [number | string | Date]) {
    if (parts.length === 0) super(now())
    else super(...parts)
  }

  static override now(): number {
    return now()
  }
}

globalThis.Date = WrongDate as DateConstructor
