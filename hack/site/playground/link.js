// The texts in the fragment of a link: JSON, deflated, in the alphabet of base64 for URLs. Servers never see a fragment.

// largest is the size in bytes of the texts that a link may carry.
const largest = 256 << 10

// encode returns the fragment for texts.
export async function encode(texts) {
  const packed = await collected(new Blob([JSON.stringify(texts)]).stream().pipeThrough(new CompressionStream('deflate-raw')), Infinity)
  const letters = Array.from(packed, b => String.fromCharCode(b)).join('')
  return '#text=' + btoa(letters).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

// decode returns the texts of a fragment, and undefined if it carries none. It throws an Error for a damaged one.
export async function decode(fragment, names) {
  if (!fragment.startsWith('#text=')) return undefined
  let texts
  try {
    const letters = atob(fragment.slice('#text='.length).replaceAll('-', '+').replaceAll('_', '/'))
    const packed = Uint8Array.from(letters, c => c.charCodeAt(0))
    const json = await collected(new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw')), largest)
    texts = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json))
  } catch {
    throw new Error('the link is damaged, cut off or too long')
  }
  if (!names.every(name => typeof texts?.[name] === 'string')) throw new Error('the link has no texts for the playground')
  return texts
}

// collected reads a stream to its end, or fails if it has more than the given number of bytes.
async function collected(stream, most) {
  const chunks = []
  let length = 0
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read()
    if (done) break
    length += value.length
    if (length > most) throw new Error('too long')
    chunks.push(value)
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer())
}
