// The heartbeat thread of a program that was bundled: one text without imports. scripts/build.js makes it of this file and puts it
// into worker/heartbeat-code.ts.

import { openExtender } from './stores/postgres/extender.js'
import { systemPorts } from './system-ports.js'
import { runHeartbeat } from './worker/run-heartbeat.js'

type Settings = Parameters<typeof openExtender>[0]

runHeartbeat(systemPorts, { postgres: (settings, ask) => openExtender(settings as Settings, ask) })
