package kind

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A behaviour may only read what can exist.
func TestReferences(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		`children: a: template: {apiVersion: "v1", kind: "ConfigMap", data: x: object.spec.txet}`:   "object.spec.txet: #G has no field spec.txet",
		`if object.spec.luod != _|_ {children: a: template: {apiVersion: "v1", kind: "ConfigMap"}}`: "object.spec.luod: #G has no field spec.luod",
		`phases: A: next: [{to: "A", when: object.spec.text.size > 1}]`:                             "object.spec.text.size: #G has no field spec.text.size",
		`phases: A: next: [{to: "A", when: observed.deply.status.ready}]`:                           "observed.deply.status.ready: the kind has no child deply",
		`phases: A: next: [{to: "A", when: observed.b.status.ready}]`:                               "",
		`status: x: "\(object.spec.txt)"`:                                                           "object.spec.txt: #G has no field spec.txt",
		`status: x: len([for p in object.spec.list if p.x == object.spec.n {1}])`:                   "object.spec.n: #G has no field spec.n",
		`#Base`: "object.spec.bsae: #G has no field spec.bsae",
		// All these may exist.
		`status: {x: object.spec.text, y: object.spec.open.any.thing, z: object.spec.map.key, l: object.metadata.labels.app}`: "",
		`status: {x: object.spec.either.a, y: object.spec.either.b, z: object.spec.more}`:                                     "",
		`status: x: [for object in object.spec.list {object.wrong}]`:                                                          "",
		`status: x: #Own.text`: "",
		`phases: A: _run & {next: [{to: "A", when: observed.job.metadata.name != ""}]}`: "",
		`status: x: object.status.phase`:                                                "",
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			_, err := kindsOf(t, `package k
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
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
			require.Regexp(t, `kind\.cue:\d+: `, err.Error())
		})
	}
}
