// The OpenAPI document, made from the same table and schemas that route and check requests.

import { z } from 'zod'
import { VERSION } from '../version.js'
import type { AnswerShape, Route } from './route.js'
import { problem } from './schemas/basics.js'

type Json = Record<string, unknown>

/** The document as JSON text. `basePath` is where the server is mounted. */
export function openApiDocument(routes: readonly Route[], basePath: string): string {
  const components: Json = {}
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    paths[route.path] ??= {}
    paths[route.path]![route.method.toLowerCase()] = operation(route, components)
  }
  return JSON.stringify({
    openapi: '3.1.0',
    info: {
      title: 'Holdfast',
      version: VERSION,
      description: 'A durable job queue. Every error is application/problem+json with a code.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    security: [{ bearer: [] }, { session: [] }],
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An API key' },
        session: { type: 'apiKey', in: 'cookie', name: 'holdfast_session', description: "The dashboard's session" },
      },
    },
  })
}

function operation(route: Route, components: Json): Json {
  const { params, query, body } = route
  return {
    operationId: route.name,
    summary: route.summary,
    ...(route.needs === 'anyone' ? { security: [] } : {}),
    ...(typeof route.needs === 'string' ? {} : { 'x-scopes': route.needs }),
    ...(params === null && query === null
      ? {}
      : { parameters: [...parameters(params, 'path', components), ...parameters(query, 'query', components)] }),
    ...(body === null
      ? {}
      : {
          requestBody: {
            required: isNeeded(body),
            content: { 'application/json': { schema: schemaOf(body, 'input', components) } },
          },
        }),
    responses: {
      ...Object.fromEntries(
        Object.entries(route.answers).map(([status, shape]) => [status, response(shape, components)]),
      ),
      default: {
        description: 'Why the request was refused',
        content: { 'application/problem+json': { schema: schemaOf(problem, 'output', components) } },
      },
    },
  }
}

/** False for a body whose fields are all optional. */
function isNeeded(body: z.ZodType): boolean {
  return !body.safeParse({}).success
}

function parameters(schema: z.ZodObject | null, place: 'path' | 'query', components: Json): readonly Json[] {
  if (schema === null) return []
  return Object.entries(schema.shape).map(([name, field]) => ({
    name,
    in: place,
    required: place === 'path',
    schema: schemaOf(field as z.ZodType, 'output', components),
  }))
}

function response({ description, schema, contentType }: AnswerShape, components: Json): Json {
  if (schema === null && contentType === undefined) return { description }
  const shown = schema === null ? { type: 'string' } : schemaOf(schema, 'output', components)
  return { description, content: { [contentType ?? 'application/json']: { schema: shown } } }
}

/** A schema as JSON Schema. Named schemas in it become components and references. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', components: Json): Json {
  // Wrapped in an object, so that a named schema becomes a reference here too.
  const { properties, $defs = {} } = z.toJSONSchema(z.object({ part: schema }), { io }) as unknown as {
    properties: { part: Json }
    $defs?: Record<string, Json>
  }
  for (const [name, definition] of Object.entries($defs)) components[name] = rebase(definition)
  return rebase(properties.part) as Json
}

function rebase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(rebase)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => {
      if (key === '$ref') return [key, String(part).replace('#/$defs/', '#/components/schemas/')]
      // OpenAPI 3.1 keeps `example` beside schemas; JSON Schema has a list of them.
      if (key === 'example') return ['examples', [part]]
      return [key, rebase(part)]
    }),
  )
}
