package admission

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
)

// oddWatchers returns Watchers with one or two odd fields each, always the same ones. The fields
// and what is odd for them come from the CRD's schema, most of which is that of core/v1.
func oddWatchers(t *testing.T, watcher *kind.Kind) []map[string]any {
	t.Helper()
	spec := watcher.Definition().Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	g := &oddities{random: rand.New(rand.NewPCG(1, 2))}
	var odd []oddity
	for _, part := range []string{"container", "volume", "imagePullSecrets"} {
		schema := spec.Properties[part]
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if part == "volume" && slices.Contains(kind.RemovedVolumes, name) {
				continue // each is rejected, though the API server accepts it
			}
			property := schema.Properties[name]
			for _, value := range g.values(&property, name) {
				odd = append(odd, oddity{part, name, value})
			}
		}
	}
	var watchers []map[string]any
	for _, o := range odd {
		for _, mode := range []string{"Native", "Container"} {
			if mode == "Native" || o.depends() {
				watchers = append(watchers, g.watcherWith(mode, o))
			}
		}
	}
	for range 2000 {
		a, b := odd[g.random.IntN(len(odd))], odd[g.random.IntN(len(odd))]
		if a.part != b.part || a.name != b.name {
			watchers = append(watchers, g.watcherWith([]string{"Native", "Container"}[g.random.IntN(2)], a, b))
		}
	}
	for _, name := range []string{strings.Repeat("a", 246), strings.Repeat("a", 247), strings.Repeat("a", 253), strings.Repeat("a", 254), "a.b", "-a"} {
		w := g.watcherWith("Native")
		w["metadata"].(map[string]any)["name"] = name
		watchers = append(watchers, w)
	}
	return watchers
}

// oddity is a value for one field of a part of a Watcher's spec.
type oddity struct {
	part, name string
	value      any
}

// depends reports whether the rules for the field differ between containers and init containers.
func (o oddity) depends() bool {
	return slices.Contains([]string{"lifecycle", "ports", "resizePolicy", "restartPolicy", "restartPolicyRules", "resources"}, o.name) || strings.HasSuffix(o.name, "Probe")
}

// watcherWith returns a valid Watcher, but for the oddities. Half of them meet the Pod Security
// level restricted, and the others can be injected into Pods for Windows.
func (g *oddities) watcherWith(mode string, odd ...oddity) map[string]any {
	container := map[string]any{"name": "watch", "image": "watch:1"}
	if g.random.IntN(2) == 0 {
		container["securityContext"] = map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}}
	}
	spec := map[string]any{"mode": mode, "container": container, "volume": map[string]any{"name": "v"}}
	for _, o := range odd {
		if o.name == "volumeDevices" {
			spec["volume"] = map[string]any{"name": "v", "persistentVolumeClaim": map[string]any{"claimName": "v"}}
		}
	}
	for _, o := range odd {
		part, ok := spec[o.part].(map[string]any)
		if !ok {
			part = map[string]any{}
			spec[o.part] = part
		}
		part[o.name] = o.value
	}
	if volume := spec["volume"].(map[string]any); len(volume) == 1 && g.random.IntN(4) > 0 {
		volume["emptyDir"] = map[string]any{}
	}
	return runtime.DeepCopyJSON(map[string]any{
		"apiVersion": "watch.fescue.dev/v1alpha1", "kind": "Watcher",
		"metadata": map[string]any{"name": "odd", "namespace": "odd"}, "spec": spec,
	})
}

// oddities derives odd values from a schema.
type oddities struct{ random *rand.Rand }

var (
	oddStrings = []string{
		"", " ", "a", "a b", " a", "A_b", "a/b", "/a", "../a", "a/../b", "..a", "a.b", "-a", "1", "a=b", "ü", "v", "kubernetes.io/a",
		"example.com/a", `a\b`, strings.Repeat("a", 64), strings.Repeat("a", 254), strings.Repeat("a/", 2100),
	}
	oddIntegers = []int64{-1, 0, 1, 2, 256, 512, 3599, 65536, 1<<31 - 1, 1<<31 + 1}
	oddNumbers  = []any{int64(-1), int64(0), int64(1), "-1", "0", "1", "100m", "1.5", "4Mi", "3Mi", "1Ei", "a"}
	oddKeys     = []string{
		"", "a", "a b", "example.com/a", "kubernetes.io/a", "requests.example.com/a", "cpu", "memory", "hugepages-2Mi", "hugepages-a",
		"storage", "ephemeral-storage", strings.Repeat("a", 64) + "/b", "example.com/" + strings.Repeat("a", 63),
	}
	// more are values that only some fields have a use for.
	more = map[string][]string{
		"fieldPath": {"metadata.name", "metadata.labels", "metadata.labels['a']", "metadata.labels['a b']", "metadata.annotations['A/b']", "spec.host", "status.phase", "spec.nodeName['a']"},
		"resource":  {"limits.cpu", "requests.memory", "limits.hugepages-2Mi", "limits.example.com/a"}, "apiVersion": {"v1", "v2"},
		"iqn": {"iqn.2020-01.com.example:a", "eui.0123456789abcdef", "naa.1", "iqn.a"}, "initiatorName": {"iqn.2020-01.com.example:a"},
		"add": {"CAP_SYS_ADMIN", "SYS_ADMIN"}, "signerName": {"example.com/a", "kubernetes.io/a", "example/a"},
		"kind": {"PersistentVolumeClaim"}, "runAsUserName": {`a\b`, `a\b\c`, "a:b", "...", `.a\b`},
		"port": {"http", "12"}, "stopSignal": {"SIGTERM", "SIGHUP", "SIGODD"}, "operator": {"In", "Exists"},
	}
	// usual are the values of fields that are not the odd one.
	usual = map[string]any{
		"containerPort": int64(8080), "port": int64(8080), "mountPath": "/v", "devicePath": "/v", "name": "v", "env": "A", "volumeName": "v",
		"fieldPath": "metadata.name", "resource": "limits.cpu", "containerName": "app", "resourceName": "cpu", "targetPortal": "a",
		"iqn": "iqn.2020-01.com.example:a", "driver": "example.com", "seconds": int64(1), "signerName": "example.com/a",
		"storage": "1Gi", "lun": int64(1), "kind": "PersistentVolumeClaim", "path": "a",
	}
)

// values returns odd and usual values for a field with that name.
func (g *oddities) values(schema *apiext.JSONSchemaProps, name string) (values []any) {
	switch {
	case schema.XIntOrString:
		values = append(values, oddNumbers...)
		for _, s := range more[name] {
			values = append(values, s)
		}
	case schema.Type == "string":
		for _, value := range schema.Enum {
			values = append(values, strings.Trim(string(value.Raw), `"`))
		}
		if len(schema.Enum) > 0 {
			return append(values, "", "Odd")
		}
		for _, s := range slices.Concat(oddStrings, more[name]) {
			values = append(values, s)
		}
	case schema.Type == "integer":
		for _, n := range oddIntegers {
			values = append(values, n)
		}
	case schema.Type == "boolean":
		return []any{true, false}
	case schema.Type == "array":
		return g.lists(schema.Items.Schema, name)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return g.maps(schema.AdditionalProperties.Schema, name)
	case schema.Type == "object":
		return g.objects(schema, name)
	}
	return values
}

func (g *oddities) lists(item *apiext.JSONSchemaProps, name string) []any {
	plain := g.usual(item, strings.TrimSuffix(name, "s"))
	values := []any{[]any{}, []any{plain}, []any{plain, plain}}
	for _, value := range g.values(item, name) {
		values = append(values, []any{value})
		if g.random.IntN(3) == 0 {
			values = append(values, []any{plain, value})
		}
	}
	return values
}

func (g *oddities) maps(item *apiext.JSONSchemaProps, name string) []any {
	values := []any{map[string]any{}}
	for _, key := range oddKeys {
		of := g.values(item, name)
		for range 3 {
			values = append(values, map[string]any{key: of[g.random.IntN(len(of))]})
		}
		values = append(values, map[string]any{key: g.usual(item, name), oddKeys[g.random.IntN(len(oddKeys))]: g.usual(item, name)})
	}
	return values
}

// objects returns objects in which one field or two are odd, with and without the others.
func (g *oddities) objects(schema *apiext.JSONSchemaProps, name string) []any {
	values := []any{map[string]any{}}
	var all []oddity
	for _, property := range slices.Sorted(maps.Keys(schema.Properties)) {
		of := schema.Properties[property]
		for _, value := range g.values(&of, property) {
			all = append(all, oddity{name: property, value: value})
		}
	}
	with := func(odd ...oddity) map[string]any {
		object := g.usual(schema, name).(map[string]any)
		for _, o := range odd {
			object[o.name] = o.value
		}
		return object
	}
	for _, o := range all {
		values = append(values, with(o))
	}
	for range min(len(all)/2, 60) {
		values = append(values, with(all[g.random.IntN(len(all))], all[g.random.IntN(len(all))]))
	}
	return values
}

// usual returns a value with nothing odd.
func (g *oddities) usual(schema *apiext.JSONSchemaProps, name string) any {
	value, found := usual[name]
	switch {
	case schema.Type == "object" && schema.AdditionalProperties == nil:
		object := map[string]any{}
		for _, property := range schema.Required {
			of := schema.Properties[property]
			object[property] = g.usual(&of, property)
		}
		return object
	case schema.Type == "object":
		return map[string]any{"storage": "1Gi"}
	case schema.Type == "array":
		return []any{g.usual(schema.Items.Schema, name)}
	case len(schema.Enum) > 0:
		return strings.Trim(string(schema.Enum[0].Raw), `"`)
	case schema.Type == "boolean":
		return true
	case found:
		return value
	case schema.Type == "integer":
		return int64(1)
	case schema.XIntOrString:
		return "1"
	}
	return "a"
}

// oddText returns the odd part of a Watcher for messages.
func oddText(watcher map[string]any) string {
	return fmt.Sprintf("%.1500v", watcher)
}
