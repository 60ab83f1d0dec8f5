// Keeps one broken page from breaking the whole window.

import { Component, type ReactNode } from 'react'
import { messageOf } from '../api/request.js'
import { Button } from './button.js'
import { Empty } from './empty.js'

interface Props {
  readonly children: ReactNode
}

interface State {
  readonly error: unknown
}

export class ErrorGuard extends Component<Props, State> {
  override state: State = { error: null }

  static getDerivedStateFromError(error: unknown): State {
    return { error }
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children
    return (
      <Empty icon="warning" title="This page cannot be shown">
        <p>{messageOf(this.state.error)}</p>
        <p>
          <Button icon="again" onClick={() => this.setState({ error: null })}>
            Try again
          </Button>
        </p>
      </Empty>
    )
  }
}
