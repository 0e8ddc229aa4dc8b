// Loads Fescue, and asks it: each request has a time limit, because CUE can neither be bounded nor interrupted. A worker that
// exceeds it is replaced.

// limit is how long an answer may take, in milliseconds. It counts from when the program is ready.
export const limit = 10_000

// load downloads and compiles the program. progress gets the part that was downloaded, from 0 to 1.
export async function load({ url, size }, progress) {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`)
  let loaded = 0
  const counter = new TransformStream({
    transform(chunk, out) {
      loaded += chunk.length
      progress(Math.min(1, loaded / size))
      out.enqueue(chunk)
    },
  })
  const program = response.body.pipeThrough(counter).pipeThrough(new DecompressionStream('gzip'))
  return WebAssembly.compileStreaming(new Response(program, { headers: { 'Content-Type': 'application/wasm' } }))
}

// Program runs a compiled program in a worker.
export class Program {
  #module
  #url
  #worker
  #ready
  #cancel = () => {}

  constructor(module, url) {
    this.#module = module
    this.#url = url
    this.#start()
  }

  #start() {
    const worker = this.#worker = new Worker(this.#url)
    this.#ready = new Promise(resolve => {
      worker.addEventListener('message', ({ data }) => data.ready && resolve())
    })
    worker.postMessage({ module: this.#module })
  }

  #restart() {
    this.#worker.terminate()
    this.#start()
  }

  // ask sends a request, in place of the one before if that has no whole answer yet. each gets the parts of the answer. The
  // result is 'done', 'replaced', 'limit' or 'ended', if the program ended.
  async ask(request, each) {
    this.#cancel()
    let finish
    const result = new Promise(resolve => { finish = resolve })
    this.#cancel = () => finish('replaced')
    await Promise.race([this.#ready, result])
    const worker = this.#worker
    const listen = ({ data }) => {
      if (data.part) each(data.part)
      if (data.part?.done) finish('done')
      if (data.ended) finish('ended')
    }
    worker.addEventListener('message', listen)
    const timer = setTimeout(finish, limit, 'limit')
    worker.postMessage({ request: JSON.stringify(request) })
    const how = await result
    clearTimeout(timer)
    worker.removeEventListener('message', listen)
    if (how !== 'done' && worker === this.#worker) this.#restart()
    this.#cancel = () => {}
    return how
  }
}
