// Builds the playground of a checkout into a folder: Fescue for WebAssembly, what runs it, and the page.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'
import { icon } from './icon.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const scratch = join(here, '../../bin/playground')

// examples are those of the menu: where the kind, its sample and, if they are not empty, the steps are.
const examples = {
  At: { kind: 'cue/at.cue', sample: 'config/samples/at.yaml', steps: 'now 2020-11-16T10:00:00Z\napply sample.yaml\nwait 10m\nwait 2m\nsucceed pod/at-sample-pod\ndelete at/at-sample\n' },
  CronJob: inFolder('cronjob'),
  IndexedJob: inFolder('indexedjob'),
  Archive: inFolder('archive'),
  Memcached: inFolder('memcached'),
  CatSet: inFolder('catset'),
  BlueGreenDeployment: inFolder('bluegreen'),
  Tenant: inFolder('tenant'),
  WebService: inFolder('webservice'),
  'Service per Pod': inFolder('serviceperpod'),
}

function inFolder(name) {
  return { kind: `examples/${name}/kind.cue`, sample: `examples/${name}/sample.yaml`, steps: '' }
}

// playground builds the playground of the checkout in source. An older version may not have one.
export async function playground(source, out) {
  if (!existsSync(join(source, 'hack/playground'))) return
  mkdirSync(out, { recursive: true })
  const packed = gzipSync(program(source), { level: 9 })
  const url = `fescue.${createHash('sha256').update(packed).digest('hex').slice(0, 12)}.wasm.packed` // of a type that no server packs or unpacks
  writeFileSync(join(out, url), packed)
  const start = join(go(source, 'env', 'GOROOT').trim(), 'lib/wasm/wasm_exec.js')
  writeFileSync(join(out, 'worker.js'), readFileSync(start, 'utf8') + readFileSync(join(here, 'playground/worker.js'), 'utf8'))
  await build({
    configFile: false,
    root: join(here, 'playground'),
    base: './',
    publicDir: false,
    build: { outDir: out, emptyOutDir: false, modulePreload: { polyfill: false }, target: 'es2022' },
    define: { PROGRAM: JSON.stringify({ url, size: packed.length }), EXAMPLES: JSON.stringify(texts(source)) },
    plugins: [{ name: 'icon', transformIndexHtml: () => [{ tag: 'link', attrs: { rel: 'icon', href: icon }, injectTo: 'head' }] }],
    logLevel: 'warn',
  })
}

function texts(source) {
  const read = file => readFileSync(join(source, file), 'utf8')
  return Object.fromEntries(Object.entries(examples).map(([name, { kind, sample, steps }]) => [name, { kind: read(kind), sample: read(sample), steps }]))
}

// program compiles Fescue. Without inlining, it is a sixth smaller when it is packed.
function program(source) {
  mkdirSync(scratch, { recursive: true })
  const file = join(scratch, 'fescue.wasm')
  go(source, 'build', '-overlay', overlay(source), '-trimpath', '-gcflags=all=-l', '-ldflags=-s -w', '-o', file, './hack/playground/wasm')
  return readFileSync(file)
}

// call is where text/template calls a method of which it knows the name only when it runs. Because of it, the linker keeps all
// methods of all types, a sixth of the program. The templates of CUE get values without methods.
const call = `	if method := ptr.MethodByName(fieldName); method.IsValid() {
		return s.evalCall(dot, method, false, node, fieldName, args, final)
	}
`

// overlay writes text/template without that call, for go build -overlay.
function overlay(source) {
  const file = join(go(source, 'env', 'GOROOT').trim(), 'src/text/template/exec.go')
  const parts = readFileSync(file, 'utf8').split(call)
  if (parts.length !== 2) throw new Error(`${file} is not as hack/site/playground.mjs knows it: adapt call to this version of Go`)
  const changed = join(scratch, 'exec.go')
  writeFileSync(changed, parts.join('	_ = ptr\n'))
  const replaced = join(scratch, 'overlay.json')
  writeFileSync(replaced, JSON.stringify({ Replace: { [file]: changed } }))
  return replaced
}

function go(source, ...args) {
  return execFileSync('go', args, { cwd: source, encoding: 'utf8', env: { ...process.env, GOOS: 'js', GOARCH: 'wasm' }, stdio: ['ignore', 'pipe', 'inherit'] })
}
