package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

const readersText = `package kinds

import "fescue.dev/cue/contract"

#Reader: {
	apiVersion!: "reads.example.com/v1"
	kind!:       "Reader"
	metadata!: {name!: string, namespace?: string, labels?: {[string]: string}, annotations?: {[string]: string}, ...}
	spec!: {secret?: string, team?: string, from?: string, size: *1 | int, replicas: *1 | int & >=0}
	status?: {contract.#Status, keys?: int, replicas?: int & >=0, selected?: int}
}
#ReaderController: contract.#Controller & {
	object!: #Reader
	observed: _
	names: plural: "readers"
	scale: {spec: ".spec.replicas", status: ".status.replicas"}
	reads: {
		secret: {apiVersion: "v1", kind: "Secret", name: object.spec.secret}
		labelled: {apiVersion: "v1", kind: "Secret", name: object.metadata.labels.secret}
		annotated: {apiVersion: "v1", kind: "Secret", name: object.metadata.annotations["example.com/secret"]}
		team: {
			apiVersion: "v1"
			kind:       "ConfigMap"
			if object.spec.from != _|_ {namespace: object.spec.from}
			selector: matchLabels: team: object.spec.team
		}
		node: {apiVersion: "v1", kind: "Node", name: "n"}
		unknown: {apiVersion: "other.example.com/v1", kind: "Thing", name: object.metadata.labels.thing}
	}
	status: {keys: len(observed.secret.data), selected: len(observed.team)}
}

#Around: {
	apiVersion!: "reads.example.com/v1"
	kind!:       "Around"
	metadata!: {name!: string, ...}
	spec!: secret!: string
	status?: contract.#Status
}
#AroundController: contract.#Controller & {
	object!: #Around
	observed: _
	names: plural: "arounds"
	children: reader: template: {apiVersion: "reads.example.com/v1", kind: "Reader", spec: secret: object.spec.secret}
}
`

// A review that cannot find out what the kind would read for the object rejects it: nobody would ask whether its
// author may read that.
func TestReviewThatTakesTooManySteps(t *testing.T) {
	t.Parallel()
	kinds := kindtest.From(t, `package kinds

import "fescue.dev/cue/contract"

#Reader: {
	apiVersion!: "reads.example.com/v1"
	kind!:       "Reader"
	metadata!: {name!: string, ...}
	spec!: items!: [...int]
	status?: contract.#Status
}
#ReaderController: contract.#Controller & {
	object!: #Reader
	names: plural: "readers"
	reads: secret: {apiVersion: "v1", kind: "Secret", name: "\(len([for a in object.spec.items for b in object.spec.items {1}]))"}
}
`)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	object := func(label string, items int) string {
		return fmt.Sprintf(`{"apiVersion":"reads.example.com/v1","kind":"Reader","metadata":{"name":"a","labels":{"a":%q}},"spec":{"items":[0%s]}}`, label, strings.Repeat(",0", items-1))
	}
	validate := func(object, old string) (bool, string) {
		r := &reviewer{allowed: map[string][]string{"ada": {"secrets"}}}
		response, err := newObjects(kinds, NewRights(r, mapper, kinds), nil).validate(t.Context(), requestFor(t, kinds[0], object, old))
		require.NoError(t, err)
		if response.Allowed {
			return true, ""
		}
		return false, response.Result.Message
	}
	allowed, _ := validate(object("b", 10), "")
	require.True(t, allowed)
	const message = `Reader.reads.example.com "a" is invalid: spec: Invalid value: Reader takes more than 500000 steps: make the object smaller, or have its kind compute less`
	allowed, why := validate(object("b", 1000), "")
	require.False(t, allowed)
	require.Equal(t, message, why)
	allowed, why = validate(object("b", 1001), object("b", 1000))
	require.False(t, allowed)
	require.Equal(t, message, why)
	allowed, _ = validate(object("c", 1000), object("b", 1000))
	require.True(t, allowed, "nothing is asked for")
	allowed, _ = validate(object("b", 10), object("b", 1000))
	require.True(t, allowed)
}

// The author needs the right to read what the kind reads for the object, whenever that changes.
func TestRightsToRead(t *testing.T) {
	t.Parallel()
	kinds := kindtest.From(t, readersText)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Node"}, meta.RESTScopeRoot)
	reader := func(metadata, spec string) string {
		return `{"apiVersion":"reads.example.com/v1","kind":"Reader","metadata":{"name":"a"` + metadata + `},"spec":{` + spec + `}}`
	}
	const (
		node    = `get nodes n at the cluster`
		secret  = `"secret":"s"`
		message = `readers.reads.example.com "a" is forbidden: user "ada" cannot `
	)
	for name, test := range map[string]struct {
		kind, object, old string
		asked             []string
		// denied is the first right that is asked for and not given.
		denied, message string
	}{
		"a Secret": {
			object: reader("", secret), asked: []string{node, "get secrets s in default"}, denied: "secrets",
			message: message + `get resource "secrets" named "s" in API group "" in the namespace "default", which the kind Reader does on behalf of the user`,
		},
		"a selection": {
			object: reader("", `"team":"x"`), asked: []string{node, "list configmaps in default"}, denied: "configmaps",
			message: message + `list resource "configmaps" in API group "" in the namespace "default", which`,
		},
		"a selection elsewhere": {
			object: reader("", `"team":"x","from":"other"`), asked: []string{node, "list configmaps in other"}, denied: "configmaps",
			message: message + `list resource "configmaps" in API group "" in the namespace "other", which`,
		},
		"a selection everywhere": {
			object: reader("", `"team":"x","from":""`), asked: []string{node, "list configmaps at the cluster"}, denied: "configmaps",
			message: message + `list resource "configmaps" in API group "" at the cluster scope, which`,
		},
		"of the cluster": {
			object: reader("", ""), asked: []string{node}, denied: "nodes",
			message: message + `get resource "nodes" named "n" in API group "" at the cluster scope, which`,
		},
		"of an unknown type": {
			object: reader(`,"labels":{"thing":"t"}`, ""), asked: []string{node, "get things t at the cluster"}, denied: "things",
			message: message + `get resource "things" named "t" in API group "other.example.com" at the cluster scope, which`,
		},
		"another spec":       {object: reader("", `"secret":"t"`), old: reader("", secret), asked: []string{node, "get secrets t in default"}, denied: "secrets", message: `named "t"`},
		"another label":      {object: reader(`,"labels":{"secret":"t"}`, ""), old: reader(`,"labels":{"secret":"s"}`, ""), asked: []string{node, "get secrets t in default"}, denied: "secrets", message: `named "t"`},
		"a new label":        {object: reader(`,"labels":{"secret":"t"}`, ""), old: reader("", ""), asked: []string{node, "get secrets t in default"}, denied: "secrets", message: `named "t"`},
		"an annotation":      {object: reader(`,"annotations":{"example.com/secret":"t"}`, ""), old: reader(`,"annotations":{"a":"b"}`, ""), asked: []string{node, "get secrets t in default"}, denied: "secrets", message: `named "t"`},
		"the same elsewhere": {object: reader("", `"team":"x","from":"b"`), old: reader("", `"team":"x","from":"a"`), asked: []string{node, "list configmaps in b"}, denied: "configmaps", message: `namespace "b"`},
		"what is done with it": {
			object: reader("", secret+`,"size":2`), old: reader("", secret), asked: []string{node, "get secrets s in default"}, denied: "secrets", message: `named "s"`,
		},
		"nothing":                {object: reader(`,"labels":{"a":"b"}`, secret), old: reader("", secret)},
		"what is no longer read": {object: reader("", ""), old: reader(`,"labels":{"secret":"t"}`, ""), asked: []string{node}},
		"a number for the scale": {object: reader("", `"replicas":3`), asked: []string{node}},
		"while an error of before stays": {
			object: reader("", `"secret":"t","size":"x"`), old: reader("", secret+`,"size":"x"`),
			asked:  []string{"get secrets in default", "list configmaps at the cluster", node, "get things at the cluster"},
			denied: "secrets", message: message + `get resource "secrets" in API group "" in the namespace "default", which`,
		},
		"once the error is gone":       {object: reader("", secret), old: reader("", secret+`,"size":"x"`), asked: []string{node, "get secrets s in default"}, denied: "secrets", message: `named "s"`},
		"a label of an invalid object": {object: reader(`,"labels":{"a":"b"}`, secret+`,"size":"x"`), old: reader("", secret+`,"size":"x"`)},
		"what a child might read": {
			kind: "Around", object: `{"apiVersion":"reads.example.com/v1","kind":"Around","metadata":{"name":"a"},"spec":{"secret":"s"}}`,
			asked:  []string{"create readers in default", "get secrets in default", "get nodes n at the cluster", "get things at the cluster", "list configmaps at the cluster"},
			denied: "secrets", message: `user "ada" cannot get resource "secrets" in API group "" in the namespace "default" (through the kind Reader), which the kind Around does`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kindtest.Named(t, kinds, "Reader")
			if test.kind != "" {
				k = kindtest.Named(t, kinds, test.kind)
			}
			for _, isAllowed := range []bool{true, false} {
				allowed := []string{"secrets", "configmaps", "nodes", "things", "readers"}
				r := &reviewer{allowed: map[string][]string{"ada": allowed}}
				if !isAllowed {
					for _, resource := range allowed {
						if resource != test.denied {
							r.allowed["bob"] = append(r.allowed["bob"], resource)
						}
					}
					r.allowed["ada"] = r.allowed["bob"]
				}
				response, err := newObjects(kinds, NewRights(r, mapper, kinds), nil).validate(t.Context(), requestFor(t, k, test.object, test.old))
				require.NoError(t, err)
				require.Equal(t, isAllowed || test.denied == "", response.Allowed)
				if !response.Allowed {
					require.Contains(t, response.Result.Message, test.message)
				}
				var asked []string
				for _, spec := range r.asked {
					of := spec.ResourceAttributes
					place := " at the cluster"
					if of.Namespace != "" {
						place = " in " + of.Namespace
					}
					asked = append(asked, strings.TrimSpace(of.Verb+" "+of.Resource+" "+of.Name)+place)
				}
				require.ElementsMatch(t, test.asked, asked)
			}
		})
	}
}
