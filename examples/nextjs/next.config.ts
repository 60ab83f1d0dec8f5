// Holdfast starts a thread from a file of its own, and children from another: a bundler must leave it alone.
const config = { serverExternalPackages: ['holdfast', 'pg'] }

export default config
