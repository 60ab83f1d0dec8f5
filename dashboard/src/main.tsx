// Starts the dashboard.

import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { startRefreshing } from './api/resource.js'
import { App } from './app.js'
import { startShortcuts } from './keys/shortcuts.js'
import { startEvents } from './live/events.js'
import { startTheme } from './theme.js'
import { startClock } from './time/clock.js'
import 'uplot/dist/uPlot.min.css'
import './styles/index.css'

startTheme()
startClock()
startRefreshing()
startEvents()
startShortcuts()

const root = document.getElementById('root')
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  )
}
