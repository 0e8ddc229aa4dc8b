// The run through time.
import { element } from './dom.js'

// momentElement shows a step, what there is after it, and all of it as YAML.
export function momentElement(moment) {
  return element('li', { className: 'moment' },
    element('div', { className: 'step' },
      element('time', { dateTime: moment.time }, moment.time.replace('T', ' ').replace('Z', '')),
      element('code', {}, moment.step)),
    (moment.objects ?? []).map(objectElement),
    details('YAML', moment.text),
    moment.manifests ? details('All objects', moment.manifests) : undefined)
}

function objectElement(o) {
  const { phase, ...status } = o.status ?? {}
  const facts = [
    ...Object.entries(status).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
    ...Object.entries(o.conditions ?? {}),
  ]
  return element('div', { className: 'object' },
    element('div', { className: 'title' },
      element('strong', {}, o.name),
      phase ? element('span', { className: 'phase' }, phase) : undefined,
      o.gone ? element('span', { className: 'gone' }, 'gone') : undefined),
    list('children', childrenOf(o).map(({ name, state, change }) => element('li', { className: change }, name, ' ', element('span', { className: 'dim' }, state)))),
    list('facts', facts.map(([name, value]) => element('li', {}, element('span', { className: 'dim' }, name + ' '), value))),
    list('events', (o.events ?? []).map(event => element('li', {}, event))),
    o.wakeAt ? element('div', { className: 'dim' }, 'next reconcile at ' + o.wakeAt) : undefined)
}

// childrenOf lists the children that exist, and those that were deleted in the step, each with what was written last.
function childrenOf({ children = {}, writes = [] }) {
  const last = new Map()
  for (const write of writes) {
    const [, verb, name] = /^(?:\S+Z )?(\w+) (\S+)/.exec(write) ?? []
    if (name) last.set(name, { create: 'created', apply: 'updated', adopt: 'adopted', delete: 'deleted' }[verb])
  }
  const existing = Object.entries(children).map(([name, state]) => ({ name, state: describe(state, last.get(name)), change: last.get(name) ?? '' }))
  const gone = [...last].filter(([name, change]) => change === 'deleted' && !(name in children))
  return [...existing, ...gone.map(([name, change]) => ({ name, state: change, change }))]
}

const describe = (state, change) => (change ? `${change}, ${state}` : state)

function list(className, items) {
  return items.length > 0 ? element('ul', { className }, items) : undefined
}

function details(summary, text) {
  return element('details', {}, element('summary', {}, summary), element('pre', {}, text))
}
