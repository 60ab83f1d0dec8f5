// Gauges under the name of this package.

import { Gauge, type Registry } from 'prom-client'

type MakeGauge = <Label extends string>(name: string, help: string, labelNames?: Label[]) => Gauge<Label>

/** Makes gauges in a registry, with `holdfast_` in front of their names. */
export function gaugesOf(registry: Registry): MakeGauge {
  return (name, help, labelNames = []) =>
    new Gauge({ name: `holdfast_${name}`, help, labelNames, registers: [registry] })
}
