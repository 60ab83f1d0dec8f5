// The heartbeat thread: where it starts, as a file of the installed package. As the first module of a thread it puts together what
// runs there, which is why it alone in this folder takes the real clock.

import { systemPorts } from '../system-ports.js'
import { runHeartbeat } from './run-heartbeat.js'

await runHeartbeat(systemPorts)
