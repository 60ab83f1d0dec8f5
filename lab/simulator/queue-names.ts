// The queues of every run.

export const QUEUES = ['alpha', 'beta', 'gamma'] as const
