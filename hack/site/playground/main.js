// The page: three texts, and what Fescue answers about them. What an answer has becomes text, never markup.
import { Editor } from './editor.js'
import { decode, encode } from './link.js'
import { element } from './dom.js'
import { limit, load, Program } from './program.js'
import { momentElement } from './timeline.js'

// The build defines where the program is, and the examples.
/* global PROGRAM, EXAMPLES */

const texts = [
  { name: 'kind', file: 'kind.cue', hint: 'package kinds …' },
  { name: 'sample', file: 'sample.yaml', hint: 'An object of the kind, and the objects that it reads' },
  {
    name: 'steps', file: 'steps',
    hint: 'Empty: the sample is applied, Jobs succeed, time passes, and at last the sample is deleted.\n\nOr the steps of a scenario, one on a line:\n\napply sample.yaml\nwait 10m\ndelete at/hello',
  },
]
const results = [{ name: 'timeline', title: 'Run' }, { name: 'crd', title: 'CRD' }, { name: 'rendered', title: 'Render' }]

const byId = id => document.getElementById(id)
const message = byId('message')
const editors = {}
let program
let findings = []
let waiting // a timer, while someone is typing
let filling = false // while texts are replaced as a whole

followTheme()
makeTabs('texts', texts.map(t => ({ id: t.name, title: t.file })))
for (const { name, file, hint } of texts) {
  const host = element('div', { id: name, className: 'editor' })
  host.setAttribute('role', 'tabpanel')
  byId('texts').append(host)
  editors[name] = new Editor(host, { label: file, hint, changed, run })
}
makeTabs('results', results.map(({ name, title }) => ({ id: name, title })))
byId('examples').append(Object.assign(new Option('your own', ''), { hidden: true })) // while the texts are no example
for (const name of Object.keys(EXAMPLES)) byId('examples').append(new Option(name))
byId('examples').selectedIndex = 1
byId('examples').addEventListener('change', () => showExample(byId('examples').value))
byId('run').addEventListener('click', run)
byId('link').addEventListener('click', copyLink)
addEventListener('hashchange', openLink)
start()

async function start() {
  fill(EXAMPLES[byId('examples').value])
  await openLink()
  const began = performance.now()
  try {
    program = new Program(await load(PROGRAM, part => { byId('progress').value = part }), 'worker.js')
  } catch (e) {
    say(`Fescue could not be loaded: ${e.message}`, true)
    return
  } finally {
    byId('progress').hidden = true
  }
  performance.measure('load', { start: began })
  run()
}

// openLink shows the texts of the page's link. What is there stays if the link is damaged.
async function openLink() {
  try {
    const linked = await decode(location.hash, texts.map(t => t.name))
    if (!linked) return
    byId('examples').value = ''
    fill(linked)
    notice('')
  } catch (e) {
    notice(`The link was not opened: ${e.message}.`)
  }
}

async function copyLink() {
  history.replaceState(null, '', await encode(current()))
  try {
    await navigator.clipboard.writeText(location.href)
    notice('The link is copied. The texts are in the link itself: no server has them.')
  } catch {
    notice('The link is in the address bar. The texts are in the link itself: no server has them.')
  }
}

function showExample(name) {
  if (location.hash.startsWith('#text=')) history.replaceState(null, '', location.pathname + location.search)
  notice('')
  fill(EXAMPLES[name])
}

function fill(all) {
  filling = true
  for (const { name } of texts) editors[name].text = all[name]
  filling = false
  showResults({ crd: '', rendered: '', moments: [] }) // not those of other texts
  run()
}

function current() {
  return Object.fromEntries(texts.map(({ name }) => [name, editors[name].text]))
}

// changed runs soon after the last edit.
function changed() {
  clearTimeout(waiting)
  if (filling) return
  byId('examples').value = ''
  waiting = setTimeout(run, 700)
}

async function run() {
  clearTimeout(waiting)
  if (!program) return
  const began = performance.now()
  const answer = { findings: [], crd: '', rendered: '', moments: [] }
  document.body.dataset.answer = 'waiting'
  say('Running …')
  const how = await program.ask(current(), part => {
    answer.findings.push(...part.findings ?? [])
    answer.crd += part.crd ?? ''
    answer.rendered += part.rendered ?? ''
    if (part.moment) answer.moments.push(part.moment)
    if (part.checked !== 'kind.cue' && part.checked !== 'steps') return
    show(answer)
    if (part.checked === 'steps') say('Checking the sample …')
  })
  if (how === 'replaced') return
  show(answer)
  const errors = answer.findings.filter(f => !f.advice).length
  say({
    done: (errors ? `${errors} ${errors === 1 ? 'error' : 'errors'}` : 'No errors') + ` (${((performance.now() - began) / 1000).toFixed(1)} s)`,
    limit: `Stopped after ${limit / 1000} s: this takes too long for a browser. What was known by then is shown; fescue vet has more time.`,
    ended: 'Fescue ended unexpectedly, perhaps without memory. It was started again.',
  }[how], how !== 'done' || errors > 0)
  document.body.dataset.answer = how
}

function show(answer) {
  findings = answer.findings
  for (const { name, file } of texts) {
    const own = findings.filter(f => f.file === file)
    editors[name].findings = own
    const wrong = own.filter(f => !f.advice).length
    byId('tab-' + name).textContent = wrong ? `${file} (${wrong})` : file
  }
  byId('findings').replaceChildren(...findings.map(findingElement))
  const isBroken = answer.crd === '' && findings.some(f => f.file === 'kind.cue' && !f.advice)
  byId('stale').hidden = !isBroken || byId('crd').textContent === ''
  byId('results').classList.toggle('stale', !byId('stale').hidden)
  if (!isBroken) showResults(answer)
}

function showResults({ crd, rendered, moments }) {
  byId('crd').textContent = crd
  byId('rendered').textContent = rendered
  byId('timeline').replaceChildren(...moments.map(momentElement))
}

function findingElement(f) {
  const place = f.line > 0 ? `${f.file}:${f.line}` : f.file
  const go = element('button', { className: 'place', onclick: () => goTo(f) }, place)
  const explained = f.check ? element('a', { href: `../reference/errors.html#${f.check}` }, f.check) : undefined
  return element('li', { className: f.advice ? 'advice' : 'error' }, go, ' ', f.text, ' ', explained)
}

function goTo({ file, line }) {
  const { name } = texts.find(t => t.file === file)
  byId('tab-' + name).click()
  editors[name].go(Math.max(1, line))
}

function say(text, wrong = false) {
  message.textContent = text
  message.className = wrong ? 'error' : ''
}

// notice shows a text about a link until there is another.
function notice(text) {
  byId('notice').textContent = text
  byId('notice').hidden = text === ''
}

// makeTabs makes a tab for each panel, of which one is shown. Panels are found when a tab is chosen.
function makeTabs(group, panels) {
  const list = document.querySelector(`[data-tabs=${group}]`)
  const choose = id => panels.forEach(p => {
    byId('tab-' + p.id).setAttribute('aria-selected', p.id === id)
    byId('tab-' + p.id).tabIndex = p.id === id ? 0 : -1
    const panel = byId(p.id)
    if (panel) panel.hidden = p.id !== id
  })
  for (const [i, { id, title }] of panels.entries()) {
    const tab = element('button', { id: 'tab-' + id, role: 'tab', onclick: () => choose(id) }, title)
    tab.setAttribute('aria-controls', id)
    tab.addEventListener('keydown', ({ key }) => {
      const next = { ArrowRight: i + 1, ArrowLeft: i - 1 }[key]
      if (next === undefined) return
      const other = byId('tab-' + panels[(next + panels.length) % panels.length].id)
      other.click()
      other.focus()
    })
    list.append(tab)
  }
  queueMicrotask(() => choose(panels[0].id))
}

// followTheme takes the appearance that someone chose on the site; without one, that of the browser is the page's.
function followTheme() {
  const chosen = localStorage.getItem('vitepress-theme-appearance')
  if (chosen === 'dark' || chosen === 'light') document.documentElement.classList.add(chosen)
}
