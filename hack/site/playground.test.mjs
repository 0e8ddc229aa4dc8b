// Uses the playground in bin/site in a headless Chromium, and writes screenshots to bin/playground-screenshots.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { deflateRawSync } from 'node:zlib'
import { browsing, fits, visited } from './browser.mjs'

const screenshots = browsing('playground-screenshots')
const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
const read = file => readFileSync(join(root, file), 'utf8')
const fragment = texts => '#text=' + deflateRawSync(JSON.stringify(texts)).toString('base64url')

// hello is a kind with a ConfigMap as its child, and a sample.
const hello = {
  kind: `package kinds

import (
	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

#Hello: {
	apiVersion!: "example.com/v1"
	kind!:       "Hello"
	metadata!:   k8s.#ObjectMeta
	spec!: count: *1 | int & >=0 & <=5
	status?: #HelloStatus
}

#HelloStatus: contract.#Status

#HelloController: contract.#Controller & {
	names: plural: "hellos"
	object: #Hello
	children: config: template: {
		apiVersion: "v1"
		kind:       "ConfigMap"
		data: count: "\\(object.spec.count)"
	}
}
`,
  sample: 'apiVersion: example.com/v1\nkind: Hello\nmetadata:\n  name: hello\nspec:\n  count: 2\n',
  steps: '',
}

// answered waits for an answer, which ends as given.
const answered = (page, how = 'done') => page.locator(`body[data-answer=${how}]`).waitFor({ timeout: 120_000 })

// write replaces a text, as someone who types it, and waits for the answer.
async function write(page, name, text, how) {
  await page.locator(`#tab-${name}`).click()
  await page.locator(`#${name} .cm-content`).fill(text)
  await page.evaluate(() => { delete document.body.dataset.answer })
  await page.locator('#run').click()
  await answered(page, how)
}

// findings are those under the lines of a text, each with the number of its line.
function findings(page, name) {
  return page.locator(`#${name} .findings`).evaluateAll(all => all.map(f => {
    const lines = [...f.parentElement.querySelectorAll('.cm-line')]
    return { line: lines.indexOf(f.previousElementSibling) + 1, text: f.textContent }
  }))
}

for (const width of [390, 1280]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`an At reaches its last phase, at ${width} px, ${colorScheme}`, () => visited('playground/', { width, colorScheme }, async page => {
      await answered(page)
      await fits(page)
      assert.deepEqual(await page.locator('.phase').allTextContents(), ['PENDING', 'PENDING', 'RUNNING', 'DONE'])
      assert.match(await page.locator('#message').textContent(), /^No errors/)
      const running = page.locator('.moment', { hasText: 'wait 2m' })
      assert.equal(await running.locator('.children .created').textContent(), 'Pod/at-sample-pod created, Running (Current)')
      const done = page.locator('.moment', { hasText: 'succeed pod/at-sample-pod' })
      assert.equal(await done.locator('.phase').textContent(), 'DONE')
      await done.getByText('YAML').click()
      assert.match(await done.locator('details[open] pre').textContent(), /phase: DONE/)
      assert.match(await page.locator('.moment').last().locator('.title').textContent(), /At\/at-sample.*gone/)
      await page.screenshot({ path: join(screenshots, `run-${width}-${colorScheme}.png`) })

      await page.locator('#tab-crd').click()
      assert.match(await page.locator('#crd').innerText(), /^apiVersion: apiextensions.k8s.io\/v1\nkind: CustomResourceDefinition/m)
      await page.screenshot({ path: join(screenshots, `crd-${width}-${colorScheme}.png`) })
      await page.locator('#tab-rendered').click()
      assert.match(await page.locator('#rendered').innerText(), /verb: create/)

      await write(page, 'kind', hello.kind.replace('object.spec.count', 'object.spec.cuont'))
      const [found] = await findings(page, 'kind')
      assert.equal(found.line, 24)
      assert.match(found.text, /object\.spec\.cuont.*did you mean.*count/)
      assert.equal(await page.locator('#stale').textContent(), 'From before the error in kind.cue.')
      assert.match(await page.locator('#rendered').innerText(), /name: at-sample/)
      await fits(page)
      await page.screenshot({ path: join(screenshots, `error-${width}-${colorScheme}.png`) })
    }))
  }
}

test('findings stand under their lines, and lead to them and to what explains them', () => visited('playground/' + fragment(hello), {}, async page => {
  await answered(page)
  assert.deepEqual(await findings(page, 'sample'), [])
  await write(page, 'sample', hello.sample.replace('count: 2', 'count: 9'))
  assert.deepEqual(await findings(page, 'sample'), [{ line: 6, text: 'Hello/hello: spec.count: Invalid value: 9: must satisfy <=5' }])
  await write(page, 'steps', 'apply sample.yaml\njump 3m\n')
  assert.match((await findings(page, 'steps'))[0].text, /unknown command "jump"/)
  await page.locator('#tab-kind').click()
  await page.getByRole('button', { name: 'sample.yaml:6' }).click()
  assert.equal(await page.locator('#sample').isVisible(), true)

  await write(page, 'kind', hello.kind.replace('template:', 'tempalte:'))
  assert.equal((await findings(page, 'kind'))[0].line, 21)
  assert.equal(await page.locator('#tab-kind').textContent(), 'kind.cue (1)')
  await page.locator('#findings a').first().click()
  await page.waitForURL(/\/reference\/errors.html#unknown-field$/)
  await page.locator('#unknown-field').waitFor()
}))

test('what someone types runs by itself', () => visited('playground/' + fragment(hello), {}, async page => {
  await answered(page)
  await page.locator('#tab-sample').click()
  await page.locator('#sample .cm-line').last().click()
  await page.keyboard.type('  size: 3')
  await page.locator('#sample .findings', { hasText: 'spec.size' }).waitFor()
}))

test('all examples run without errors', () => visited('playground/', {}, async page => {
  const names = await page.locator('#examples option:not([hidden])').allTextContents()
  assert.ok(names.length >= 10, names.join())
  await answered(page) // the first one
  for (const name of names.slice(1)) {
    await page.evaluate(() => { delete document.body.dataset.answer })
    await page.locator('#examples').selectOption(name)
    await page.locator('body[data-answer=done], body[data-answer=limit]').waitFor({ timeout: 60_000 })
    assert.deepEqual(await page.locator('#findings .error').allTextContents(), [], name)
    assert.ok(await page.locator('.moment').count() > 1, name)
  }
}))

test('the menu names the example, and nothing else', () => visited('playground/', {}, async page => {
  await answered(page)
  const shown = () => page.locator('#examples').evaluate(menu => menu.selectedOptions[0].text)
  const first = await page.locator('#examples option:not([hidden])').first().textContent()
  assert.equal(await shown(), first)
  await write(page, 'kind', hello.kind)
  assert.equal(await shown(), 'your own')
  await page.locator('#examples').selectOption(first) // again, which undoes the edit
  assert.match(await page.locator('#kind .cm-content').textContent(), /#At: \{/)
  assert.equal(await shown(), first)
  await answered(page)
  await page.evaluate(hash => { location.hash = hash }, fragment({ ...hello, kind: 'package kinds\n#Hello: {' }))
  await page.locator('#findings .error').first().waitFor()
  assert.equal(await shown(), 'your own')
  // The results of the example are not those of the link.
  assert.equal(await page.locator('#stale').isVisible(), false)
  assert.equal(await page.locator('.moment').count(), 0)
}))

test('a link carries the texts, which stay texts', () => {
  const attack = '<img src=x onerror="window.attacked = true"><script>window.attacked = true</script>'
  const texts = { kind: hello.kind + '// ' + attack, sample: hello.sample.replace('name: hello', `name: ${JSON.stringify(attack)}`), steps: '# ' + attack + '\napply sample.yaml' }
  return visited('playground/' + fragment(texts), {}, async page => {
    await answered(page)
    assert.ok((await page.locator('#kind .cm-content').textContent()).endsWith('// ' + attack))
    assert.ok((await page.locator('#findings').textContent()).includes('<img src=x onerror='))
    assert.equal(await page.locator('img, #findings script, #timeline script').count(), 0)
    assert.equal(await page.evaluate(() => window.attacked), undefined)

    await page.locator('#link').click()
    await page.locator('#notice', { hasText: 'The link is copied' }).waitFor()
    const link = await page.evaluate(() => navigator.clipboard.readText())
    assert.equal(link, page.url())
    await write(page, 'steps', '')
    await page.goto('about:blank')
    await page.goto(link)
    await answered(page)
    await page.locator('#tab-steps').click()
    assert.equal(await page.locator('#steps .cm-line').first().textContent(), '# ' + attack)
  })
})

test('a damaged link says so, and the texts stay', () => visited('playground/#text=AAAA', {}, async page => {
  await page.locator('#notice', { hasText: 'The link was not opened: the link is damaged' }).waitFor()
  await answered(page)
  const before = await page.locator('#kind .cm-content').textContent()
  assert.match(before, /#At: \{/)
  const bomb = '#text=' + deflateRawSync(JSON.stringify({ kind: ' '.repeat(1 << 24), sample: '', steps: '' })).toString('base64url')
  for (const hash of [bomb, fragment({ kind: 1 }), fragment(hello).slice(0, -40), '#text=%%%']) {
    await page.evaluate(() => { document.getElementById('notice').textContent = '' })
    await page.evaluate(hash => { location.hash = hash }, hash)
    await page.locator('#notice', { hasText: 'The link was not opened' }).waitFor()
    assert.equal(await page.locator('#kind .cm-content').textContent(), before)
  }
}))

test('the policy stops what a script would add or load', () => visited('playground/', { expected: /content security policy|https:\/\/example\.com\//i }, async page => {
  await answered(page)
  const blocked = await page.evaluate(async () => {
    const seen = []
    document.addEventListener('securitypolicyviolation', e => seen.push(e.effectiveDirective))
    const tried = [
      Object.assign(document.createElement('script'), { textContent: 'window.attacked = true' }),
      Object.assign(document.createElement('img'), { src: 'https://example.com/image.png' }),
      Object.assign(document.createElement('iframe'), { src: 'https://example.com/' }),
    ]
    document.body.append(...tried)
    await fetch('https://example.com/').catch(() => {})
    await new Promise(resolve => setTimeout(resolve, 500))
    for (const element of tried) element.remove()
    return seen.sort()
  })
  assert.deepEqual([...new Set(blocked)], ['connect-src', 'frame-src', 'img-src', 'script-src-elem'])
  assert.equal(await page.evaluate(() => window.attacked), undefined)
}))

test('endless CUE is stopped, and the page goes on', () => visited('playground/' + fragment(hello), {}, async page => {
  await answered(page)
  const endless = hello.kind.replace('*1 | int', '*len([for a in _x for b in _x for c in _x for d in _x for e in _x {e}]) | int') +
    '\n_x: [' + Array.from({ length: 60 }, (_, i) => i).join() + ']\n'
  await write(page, 'kind', endless, 'limit')
  assert.match(await page.locator('#message').textContent(), /^Stopped after 10 s/)
  await page.screenshot({ path: join(screenshots, 'limit.png') })
  await write(page, 'kind', hello.kind)
  assert.match(await page.locator('.moment').first().textContent(), /ConfigMap\/hello-config created/)
  // A new text replaces one that still runs.
  await page.locator('#kind .cm-content').fill(endless)
  await page.locator('#run').click()
  await write(page, 'kind', hello.kind)
  assert.match(await page.locator('.moment').first().textContent(), /ConfigMap\/hello-config created/)
}))

test('Fescue has at most 10 MB', () => visited('playground/', {}, async page => {
  await answered(page)
  const load = await page.evaluate(() => performance.getEntriesByName('load')[0].duration)
  const folder = join(root, 'bin/site/playground')
  const { size } = statSync(join(folder, readdirSync(folder).find(f => f.endsWith('.packed'))))
  console.log(`${(size / 1e6).toFixed(2)} MB, compiled after ${Math.round(load)} ms. ${await page.locator('#message').textContent()}`)
  assert.ok(size <= 10e6, `${size} bytes`)
  assert.equal(await page.locator('#progress').isVisible(), false)
}))
