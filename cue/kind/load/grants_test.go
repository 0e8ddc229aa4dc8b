package load

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// What children give away is known where it is the same for all objects; everything else may be anything, and the
// author of the kind is told.
func TestGrants(t *testing.T) {
	t.Parallel()
	const (
		text = `
package kinds

import "fescue.dev/cue/contract"

#Thing: {apiVersion!: "things.example.com/v1", kind!: "Thing", metadata!: {name!: string, namespace?: string, ...}, spec: role: *"x" | string, status?: contract.#Status}
#ThingController: contract.#Controller & {
	object!: #Thing
	names: plural: "things"
	OWNS
	children: CHILDREN
}
_reader: "view"
_described: {name: string, ...}
_roles: {view: {}, edit: {}}
_names: {small: "view", large: "edit"}
`
		binding     = `{b: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", roleRef: REF}}`
		anyBinding  = "RoleBinding bind ClusterRole , RoleBinding bind Role "
		notConstant = "children.b.template.roleRef: is not the same for all objects, so the operator needs the right to bind every role that it may be"
		escalates   = "children.r.template: the operator needs the rights in the rules, or the right to escalate"
	)
	refers := func(fields string) string {
		return strings.ReplaceAll(binding, "REF", `{apiGroup: "rbac.authorization.k8s.io", `+fields+`}`)
	}
	inLoop := func(clause string) string {
		return "{for " + clause + ` {"b-\(role)": template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role}}}}`
	}
	inLoopNotConstant := strings.Replace(notConstant, "children.b", "children[…]", 1)
	role := func(kind, rules string) string {
		return fmt.Sprintf(`{r: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: %q, metadata: name: object.metadata.name, %s}}`, kind, rules)
	}
	const owns = `owns: [{apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding"}]`
	for name, tc := range map[string]struct{ owns, children, want, advice string }{
		"no child of RBAC":      {"", `{c: template: {apiVersion: "v1", kind: "ConfigMap"}}`, "", ""},
		"a ClusterRole":         {"", refers(`kind: "ClusterRole", name: "view"`), "RoleBinding bind ClusterRole view", ""},
		"a Role":                {"", refers(`kind: "Role", name: "view"`), "RoleBinding bind Role view", ""},
		"for all of a cluster":  {"", strings.ReplaceAll(refers(`kind: "ClusterRole", name: "view"`), `"RoleBinding"`, `"ClusterRoleBinding", metadata: name: object.metadata.name`), "ClusterRoleBinding bind ClusterRole view", ""},
		"by reference":          {"", refers(`kind: "ClusterRole", name: _reader`), "RoleBinding bind ClusterRole view", ""},
		"described":             {"", refers(`kind: "ClusterRole", _described, name: "view"`), "RoleBinding bind ClusterRole view", ""},
		"under an if":           {owns, `{if object.spec.role == "x" ` + refers(`kind: "ClusterRole", name: "view"`) + `}`, "RoleBinding bind ClusterRole view", ""},
		"in a loop":             {owns, `{for n in ["a", "b"] {"b-\(n)": template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view"}}}}`, "RoleBinding bind ClusterRole view", ""},
		"the keys of a struct":  {owns, inLoop("role, _ in _roles"), "RoleBinding bind ClusterRole edit, RoleBinding bind ClusterRole view", ""},
		"the values of one":     {owns, inLoop("_, role in _names"), "RoleBinding bind ClusterRole edit, RoleBinding bind ClusterRole view", ""},
		"the items of a list":   {owns, inLoop(`role in ["view", "edit"]`), "RoleBinding bind ClusterRole edit, RoleBinding bind ClusterRole view", ""},
		"the keys of the user":  {owns, inLoop("role, _ in object.spec"), "RoleBinding bind ClusterRole ", inLoopNotConstant},
		"the keys of any":       {owns, inLoop("role, _ in _described"), "RoleBinding bind ClusterRole ", inLoopNotConstant},
		"chosen by the author":  {"", refers(`kind: "ClusterRole", name: object.spec.role`), "RoleBinding bind ClusterRole ", notConstant},
		"a default":             {"", refers(`kind: "ClusterRole", name: *"view" | string`), "RoleBinding bind ClusterRole ", notConstant},
		"one of two":            {"", refers(`kind: "ClusterRole", if object.spec.role == "x" {name: "view"}, if object.spec.role != "x" {name: "admin"}`), "RoleBinding bind ClusterRole ", notConstant},
		"of a type of two":      {"", refers(`if object.spec.role == "x" {kind: "Role"}, if object.spec.role != "x" {kind: "ClusterRole"}, name: "view"`), anyBinding, notConstant},
		"only declared":         {owns, `{c: template: {apiVersion: "v1", kind: "ConfigMap"}}`, anyBinding, ""},
		"rules":                 {"", role("Role", `rules: [{apiGroups: [""], resources: ["pods"], verbs: ["get"]}]`), "Role escalate Role ", escalates},
		"no rules":              {"", role("Role", `rules: []`), "", ""},
		"rules of the author":   {"", role("ClusterRole", `rules: [if object.spec.role == "x" {apiGroups: [""], resources: ["pods"], verbs: ["get"]}]`), "ClusterRole escalate ClusterRole ", escalates},
		"rules of others":       {"", role("ClusterRole", `aggregationRule: clusterRoleSelectors: [{matchLabels: a: "b"}]`), "ClusterRole escalate ClusterRole ", escalates},
		"a template from where": {"", `{b: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", for n in ["a"] {"role\("Ref")": {kind: "ClusterRole", name: object.spec.role}}}}`, anyBinding, notConstant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := All(false, corpus.Folder(t, strings.NewReplacer("OWNS", tc.owns, "CHILDREN", tc.children).Replace(text)))
			require.NoError(t, errors.Join(err, set.BrokenError()))
			k := set.All()[0]
			var got []string
			for _, g := range k.Grants {
				got = append(got, strings.Join([]string{g.Child.Kind, g.Verb, g.Role.Kind, g.Name}, " "))
			}
			require.Equal(t, tc.want, strings.Join(got, ", "))
			var advice string
			for _, a := range k.Advice {
				if before, isGrant := strings.CutSuffix(a.Text, "; fescue manifests does not print it: see docs/operate/multi-tenancy.md#kinds-that-grant-rights"); isGrant {
					advice += before
				}
			}
			require.Equal(t, tc.advice, advice)
		})
	}
}
