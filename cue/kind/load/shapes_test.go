package load

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/mistake"
)

// validShapes are behaviours whose children are valid for all objects, although parts of the source alone are not: what is
// missing there, or would be too much, is decided elsewhere.
var validShapes = map[string]string{
	"a parameter that is a hidden field": `
		_with: {_probe: {}, name: "a", image: "x", livenessProbe: _probe}
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {containers: [_with & {_probe: httpGet: port: 80}]}}`,
	"a parameter that is a definition": `
		_pod: {#main: {name: "a"}, containers: [#main]}
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {_pod & {#main: image: "x"}}}`,
	"a parameter that is a field": `
		_with: {name: "a", image: "x", livenessProbe: {periodSeconds: 3}, readinessProbe: livenessProbe & {failureThreshold: 2}}
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {containers: [_with & {livenessProbe: httpGet: port: 80}]}}`,
	"a parameter of a whole child": `
		_job: {#spec: {containers: [{name: "a", image: "x"}]}, template: {apiVersion: "batch/v1", kind: "Job", spec: template: spec: #spec}}
		children: run: _job & {#spec: restartPolicy: "Never"}`,
	"a parameter that is a list": `
		_with: {_command: [...string], name: "a", image: "x", livenessProbe: exec: command: _command}
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {containers: [_with & {_command: ["x"]}]}}`,
	"a hidden field with ifs": `
		_probe: {}
		if object.spec.on {_probe: exec: command: ["x"]}
		if !object.spec.on {_probe: httpGet: port: 80}
		_main: {name: "a"}
		if object.spec.on {_main: image: "x"}
		if !object.spec.on {_main: image: "y"}
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {containers: [_main & {livenessProbe: _probe}]}}`,
	"a let with ifs": `
		let c = {
			probe: {}
			op: string
			value: string
			if object.spec.on {probe: exec: command: ["x"], op: "Exists", value: ""}
			if !object.spec.on {probe: httpGet: port: 80, op: "Equal", value: "x"}
		}
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {
			containers: [{name: "a", image: "x", livenessProbe: c.probe}]
			tolerations: [{key: "k", operator: c.op, value: c.value}]
		}}`,
	"loops of which one yields": `
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {containers: [{
			name: "a", image: "x"
			for _ in [if object.spec.on {1}] {livenessProbe: exec: command: ["x"]}
			for _ in [if !object.spec.on {1}] {livenessProbe: tcpSocket: port: 80}
		}]}}
		children: budget: template: {apiVersion: "policy/v1", kind: "PodDisruptionBudget", spec: selector: {}}
		children: budget: template: {
			for m in ["x"] if m == object.spec.mode {spec: minAvailable: 1}
			for m in ["y"] if m == object.spec.mode {spec: maxUnavailable: 1}
		}`,
	"children for what is observed": `
		owns: [{apiVersion: "v1", kind: "ConfigMap"}]
		children: base: template: {apiVersion: "v1", kind: "ConfigMap", data: a: "b"}
		children: {
			for k, _ in *observed.base.data | {} {"c-\(k)": template: {apiVersion: "v1", kind: "ConfigMap"}}
		}`,
	"joined lists": `
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {
			containers: list.Concat([[{name: "a", image: "x", livenessProbe: exec: command: ["x"]}], [{name: "b", image: "x", livenessProbe: tcpSocket: port: 80}]])
			volumes: list.Concat([[{name: "a", emptyDir: {}}], [{name: "b", configMap: name: "c"}]])
		}}`,
	"a part of a list": `
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {containers: list.Take([{name: "a", image: "x"}, {name: "a", image: "y"}], 1)}}`,
	"patterns": `
		children: [string]: template: spec: template: spec: {restartPolicy: "Never", containers: [...{image: "x"}]}
		children: run: template: {apiVersion: "batch/v1", kind: "Job", spec: template: spec: containers: [{name: "a"}]}`,
	"patterns of items": `
		_all: [N=string]: {name: N, image: *"img" | string, livenessProbe: tcpSocket: port: 80}
		_all: web: livenessProbe: periodSeconds: 3
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {containers: [_all.web]}}`,
	"alternatives beside fields": `
		children: run: template: {apiVersion: "batch/v1", kind: "Job", spec: {
			template: spec: {restartPolicy: "Never", containers: [{name: "a", image: "x"} & [if object.spec.on {{stdin: true}}, {}][0]]}
			[if object.spec.on {backoffLimit: 0}, {parallelism: 2}][0]
		}}`,
	"alternatives that something else excludes": `
		_port: {containerPort: *0 | int}
		_policy: "Unset" | "Never"
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {restartPolicy: _policy & "Never", containers: [{name: "a", image: "x", ports: [_port & {containerPort: 80}]}]}}`,
	"null for some objects": `
		children: budget: template: {apiVersion: "policy/v1", kind: "PodDisruptionBudget", spec: {
			selector: {}
			minAvailable: [if object.spec.on {1}, null][0]
			maxUnavailable: [if object.spec.on {null}, 1][0]
		}}`,
	"values that fit together in each if": `
		children: scaler: template: {apiVersion: "autoscaling/v2", kind: "HorizontalPodAutoscaler", spec: {
			scaleTargetRef: {apiVersion: "apps/v1", kind: "Deployment", name: "x"}
			if object.spec.on {minReplicas: 5, maxReplicas: 8}
			if !object.spec.on {maxReplicas: 2}
		}}
		children: web: template: {apiVersion: "v1", kind: "Pod", spec: {containers: [{
			name: "a", image: "x"
			if object.spec.on {resources: limits: cpu: "1"}
			if !object.spec.on {resources: requests: cpu: "2"}
			ports: [{containerPort: 80, if object.spec.on {name: "http"}, if !object.spec.on {name: "https"}}]
			livenessProbe: httpGet: {if !object.spec.on {port: "https"}, if object.spec.on {port: "http"}}
			volumeMounts: [{mountPath: "/a", if !object.spec.on {name: "two"}, if object.spec.on {name: "one"}}]
			if object.spec.on {env: [{name: "A", value: "1"}]}
			if !object.spec.on {env: [{name: "B", value: "1"}, {name: "A", value: "2"}]}
		}], volumes: [{emptyDir: {}, if object.spec.on {name: "one"}, if !object.spec.on {name: "two"}}]}}`,
	"a kind of the same name": `
		children: secret: template: {apiVersion: "example.com/v1", kind: "Secret", data: x: "plain!"}
	}
	#Secret: {apiVersion!: "example.com/v1", kind!: "Secret", metadata!: {...}, data?: [string]: string}
	#SecretController: contract.#Controller & {
		object!:  #Secret
		observed: _
		names: plural: "secrets"`,
	"a class of the system": `
		scope: "Cluster"
		children: class: template: {apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: name: "system-node-critical", value: 2000001000}`,
}

// No mistake is found in what only looks like one.
func TestValidShapes(t *testing.T) {
	t.Parallel()
	for name, behaviour := range validShapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drafts, err := draftsOf(t, `
package k

import (
	"list"

	"fescue.dev/cue/contract"
)

_list: list.Concat // not each of them uses it
#G: {
	apiVersion!: "example.com/v1"
	kind!:       "G"
	metadata!: {...}
	spec!: {on: *false | bool, mode: *"x" | "y"}
}
#GController: contract.#Controller & {
	object!:  #G
	observed: _
	names: plural: "gs"
`+behaviour+`
}
`)
			require.NoError(t, err)
			requireNoMistakes(t, drafts)
			for _, a := range drafts[0].Advice {
				require.NotEqual(t, mistake.IfDeletesChild, a.Check, a.Text)
			}
		})
	}
}
