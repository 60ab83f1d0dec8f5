// What `import … from 'holdfast/metrics'` gives.

export { createMetrics, type Metrics, type MetricsOptions } from './metrics.js'
export { type MetricsServer, type ServeMetricsOptions, serveMetrics } from './serve.js'
