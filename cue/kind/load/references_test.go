package load

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// A behaviour may only read what can exist.
func TestReferences(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		`children: a: template: {apiVersion: "v1", kind: "ConfigMap", data: x: object.spec.txet}`:   "object.spec.txet: #G has no field spec.txet",
		`if object.spec.luod != _|_ {children: a: template: {apiVersion: "v1", kind: "ConfigMap"}}`: "object.spec.luod: #G has no field spec.luod",
		`phases: A: next: [{to: "A", when: object.spec.text.size > 1}]`:                             "object.spec.text.size: object.spec.text is a string and has no fields",
		`phases: A: next: [{to: "A", when: observed.deply.status.ready}]`:                           "observed.deply: the kind has no child deply",
		`phases: A: next: [{to: "A", when: observed.b.status.ready}]`:                               "",
		`status: x: "\(object.spec.txt)"`:                                                           "object.spec.txt: #G has no field spec.txt",
		`status: x: len([for p in object.spec.list if p.x == object.spec.n {1}])`:                   "object.spec.n: #G has no field spec.n",
		`#Base`: "object.spec.bsae: #G has no field spec.bsae",
		`status: x: [for object in object.spec.list {object.wrong}]`: "object.spec.list[].wrong: #G has no field spec.list[].wrong",
		// All these may exist.
		`status: {x: object.spec.text, y: object.spec.open.any.thing, z: object.spec.map.key, l: object.metadata.labels.app}`: "",
		`status: {x: object.spec.either.a, y: object.spec.either.b, z: object.spec.more}`:                                     "",
		`status: x: [for object in object.spec.list {object.x}]`:                                                              "",
		`status: x: #Own.text`: "",
		`phases: A: _run & {next: [{to: "A", when: observed.job.metadata.name != ""}]}`: "",
		`status: x: object.status.phase`:                                                "",
		// Children whose names are computed.
		`children: {for n, c in object.spec.map let x = "\(n)-\(c)" {(x): _made}}, status: x: observed["a-b"].data`:                    "",
		`children: {for n, c in object.spec.map let x = {(n): _made} {x}}, status: x: observed.a.data`:                                 "",
		`children: (#Make & {names: ["a"]}).out, children: web: _made, status: x: observed.a.data`:                                     "",
		`_all: [if object.spec.loud != _|_ {{a: _made}}, {c: _made}][0], _all: web: _made, children: _all, status: x: observed.a.data`: "",
		`children: {for n, c in object.spec.map let x = n {x: _made}}, status: x: observed.a.data`:                                     "observed.a: the kind has no child a",
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			kinds, err := draftsOf(t, `package k
import "fescue.dev/cue/contract"
#G: {
	apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}
	spec!: {
		text!: string, loud?: bool, list?: [...{x: int}], open?: {...}, map?: [string]: string
		either?: {a: int} | {b: int}
		if text == "more" {more?: string}
	}
	status?: {contract.#Status, phase?: "A", ...}
}
#Ref: {object: {kind: string}, text: "\(object.kind)"}
#Own: #Ref & {object: kind: "Pod"}
_made: template: {apiVersion: "v1", kind: "ConfigMap"}
#Make: {names: [...string], out: {for n in names {(n): _made}}}
_run: {children: job: template: {apiVersion: "v1", kind: "ConfigMap"}, ...}
#Base: {object!: {spec!: {...}, ...}, status: b: object.spec.bsae, ...}
#GController: contract.#Controller & {
	object!: #G
	observed: b?: {...}
	names: plural: "gs"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	initial: "A"
	phases: A: {}
	`+part+`
}
`)
			require.NoError(t, err)
			known, err := types.New()
			require.NoError(t, err)
			mistakes := check.Behaviour(kinds[0].Kind, kinds[0].Source, known)
			if want == "" {
				require.Empty(t, mistakes)
				return
			}
			require.NotEmpty(t, mistakes)
			require.ErrorContains(t, mistakes[0], want)
			require.Regexp(t, `kind\.cue:\d+: `, mistakes[0].Error())
		})
	}
}
