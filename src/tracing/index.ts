// What `import … from 'holdfast/tracing'` gives.

export { type OpenTelemetryOptions, openTelemetry } from './open-telemetry.js'
