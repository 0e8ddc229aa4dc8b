// Runs Fescue, after Go's wasm_exec.js in the same file. The page sends the compiled program once, and then requests.
// No file exists here. Go's own stand-in for a file system reports instead that it has none of these functions.
globalThis.fs.constants.O_DIRECTORY = 0o200000
for (const name of ['stat', 'lstat', 'open', 'readdir', 'readlink']) {
  globalThis.fs[name] = (...args) => args.at(-1)(Object.assign(new Error('no such file'), { code: 'ENOENT' }))
}

addEventListener('message', async ({ data }) => {
  if (data.request !== undefined) {
    globalThis.fescue(data.request, part => postMessage({ part: JSON.parse(part) }))
    return
  }
  const go = new globalThis.Go()
  const instance = await WebAssembly.instantiate(data.module, go.importObject)
  go.run(instance).then(() => postMessage({ ended: true })) // Go exits only if it panics, or has no memory left
  postMessage({ ready: true })
})
