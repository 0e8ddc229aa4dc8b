package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// spillKind fails in each way in which a message could quote what it reads. GROUP is replaced.
const spillKind = `
package spill

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"

	"fescue.dev/cue/contract"
)

#Spill: {
	apiVersion!: "GROUP/v1", kind!: "Spill", metadata!: {name!: string, namespace?: string, ...}
	spec!: how!: string
	status?: {contract.#Status, number?: int, level?: =~"^[a-z]$", has?: bool, text?: string}
}
#SpillController: contract.#Controller & {
	object!: #Spill
	observed: _
	names: plural: "spills"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}, {apiVersion: "v1", kind: "Pod"}]
	reads: {
		secret: {apiVersion: "v1", kind: "Secret", name: "s"}
		marked: {apiVersion: "v1", kind: "ConfigMap", name: "c", sensitive: true}
	}
	let pw = "\(base64.Decode(null, observed.secret.data.password))"
	let other = observed.marked.data.password
	status: {
		if object.spec.how == "number" {number: strconv.Atoi(pw)}
		if object.spec.how == "number-marked" {number: strconv.Atoi(other)}
		if object.spec.how == "number-encoded" {number: strconv.Atoi(observed.secret.data.password)}
		if object.spec.how == "conflict" {level: "a" & pw}
		if object.spec.how == "pattern" {has: regexp.Match(pw, "a")}
		if object.spec.how == "member" {number: {a: 1}[pw]}
		if object.spec.how == "level" {level: pw}
		if object.spec.how =~ "^fed-" {text: pw}
		if object.spec.how == "fed-number" {number: strconv.Atoi(object.status.text)}
	}
	conditions: Kept: {status: true, if object.spec.how == "reason" {reason: pw}}
	children: {
		if object.spec.how == "label" {label: template: {apiVersion: "v1", kind: "ConfigMap", metadata: labels: password: pw}}
		if object.spec.how == "annotation-name" {named: template: {apiVersion: "v1", kind: "ConfigMap", metadata: annotations: "\(pw)": "x"}}
		if object.spec.how == "name" {named: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: other}}
		if object.spec.how == "key" {key: template: {apiVersion: "v1", kind: "ConfigMap", data: "\(pw)": "x"}}
		if object.spec.how == "field" {field: template: {apiVersion: "v1", kind: "ConfigMap", "\(pw)": "x"}}
		if object.spec.how == "quantity" {pod: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "c", image: "busybox", resources: limits: memory: pw}]}}
		if object.spec.how == "image" {pod: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "c", image: "busybox", imagePullPolicy: other}]}}
		if object.spec.how == "second" {pod: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "c", image: "busybox"}, {name: "d", image: "busybox", resources: limits: "\(pw)": "1"}]}}
		if object.spec.how == "inline" {inline: template: {apiVersion: "v1", kind: "ConfigMap", data: v: json.Marshal({(pw): strconv.Atoi("x")})}}
		set: {replicas: [if object.spec.how == "replicas" {strconv.Atoi(pw)}, 0][0], template: {apiVersion: "v1", kind: "ConfigMap"}}
		if object.spec.how == "fed-label" {fed: template: {apiVersion: "v1", kind: "ConfigMap", metadata: labels: password: object.status.text}}
		if object.spec.how == "harmless" {harmless: template: {apiVersion: "v1", kind: "ConfigMap", metadata: labels: a: "\(object.spec.how) is not valid", data: x: object.spec.how}}
	}
}
`

// spilled is the value that is not to be shown.
const spilled = "Hunter2.x {(*"

// What a kind reads of a Secret, or of an object that it marks as sensitive, is in no condition, Event, log line or metric, however
// the evaluation of the kind or the API server fails because of it. Messages say where and why.
func TestSensitiveValuesAreNotShown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group := c.group()
	c.deleteCRDs("spills." + group)
	dir, _ := writeKind(t, strings.ReplaceAll(spillKind, "GROUP", group))
	spills := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "spills"}
	encoded := base64.StdEncoding.EncodeToString([]byte(spilled))
	c.create(secrets, "Secret", "s", map[string]any{"data": map[string]any{"password": encoded}})
	c.create(configMaps, "ConfigMap", "c", map[string]any{"data": map[string]any{"password": spilled}})

	o := c.start("--kinds", dir, "--shipped-kinds=false")
	messages := map[string]string{
		"number":          `status: error in call to strconv.Atoi: … (`,
		"number-marked":   `status: error in call to strconv.Atoi: … (`,
		"number-encoded":  `status: error in call to strconv.Atoi: … (`,
		"conflict":        `status: conflicting values … and … (`,
		"pattern":         `status: error in call to regexp.Match: … (`,
		"member":          "", // a field that does not exist: it waits
		"level":           `status: the API server rejects it (Invalid): status.level: FieldValueInvalid`,
		"reason":          `conditions: `,
		"label":           `child "label": the API server rejects it (Invalid): metadata.labels: FieldValueInvalid`,
		"annotation-name": `child "named": the API server rejects it (Invalid): metadata.annotations: FieldValueInvalid`,
		"name":            `child "named": `,
		"key":             `child "key": the API server rejects it (Invalid): data.…: FieldValueInvalid`,
		"field":           `child "field": the API server rejects it (`,
		"quantity":        `child "pod": the API server rejects it (`,
		"image":           `child "pod": the API server rejects it (Invalid): spec.containers.0.imagePullPolicy: FieldValueNotSupported`,
		"second":          `child "pod": the API server rejects it (Invalid): spec.containers.1.resources.limits.…: FieldValueInvalid`,
		"inline":          `the behaviour: error in call to strconv.Atoi: … (`,
		"fed-number":      `status: error in call to strconv.Atoi: … (`,
		"fed-label":       `child "fed": the API server rejects it (Invalid): metadata.labels: FieldValueInvalid`,
		"replicas":        `children: error in call to strconv.Atoi: … (`,
		"harmless":        `metadata.labels: Invalid value: "harmless is not valid": a valid label must`,
	}
	for how := range messages {
		c.create(spills, "Spill", how, map[string]any{"spec": map[string]any{"how": how}})
	}
	shows := func(text string) bool {
		quoted, err := json.Marshal(spilled)
		require.NoError(t, err)
		return strings.Contains(text, spilled) || strings.Contains(text, encoded) || strings.Contains(text, strings.Trim(string(quoted), `"`)) || strings.Contains(text, "Hunter2")
	}
	for how, message := range messages {
		object := c.await(spills, how, "reconciled", func(o *unstructured.Unstructured) bool {
			_, _, stalled := condition(o, "Stalled")
			return isTrue(o, "Stalled") && message != "" && strings.Contains(stalled, message) || isTrue(o, "Ready") && message == ""
		})
		unstructured.RemoveNestedField(object.Object, "status", "text") // shown by the kind's own will
		text, err := json.Marshal(object.Object["status"])
		require.NoError(t, err)
		require.False(t, shows(string(text)), "%s: %s", how, text)
	}
	require.True(t, testcluster.WaitUntil(func() bool { return len(c.eventReasons("number")) > 0 }))
	all, err := c.objects(events).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	text, err := json.Marshal(all.Items)
	require.NoError(t, err)
	require.False(t, shows(string(text)), "%s", text)
	require.False(t, shows(o.log.String()), "the log")
	_, metrics := get(t, o.address("--metrics-listen")+"/metrics")
	require.False(t, shows(metrics), "the metrics")
}

// warnedKind writes children that a policy warns about, one of which depends on a Secret. GROUP is replaced.
const warnedKind = `
package warned

import (
	"encoding/base64"

	"fescue.dev/cue/contract"
)

#Warned: {
	apiVersion!: "GROUP/v1", kind!: "Warned", metadata!: {name!: string, namespace?: string, ...}
	spec!: {}
	status?: {contract.#Status, text?: string}
}
#WarnedController: contract.#Controller & {
	object!: #Warned
	observed: _
	names: plural: "warneds"
	reads: secret: {apiVersion: "v1", kind: "Secret", name: "s"}
	status: text: "\(base64.Decode(null, observed.secret.data.password))"
	children: {
		open: template: {apiVersion: "v1", kind: "ConfigMap", data: text: "nothing secret"}
		closed: template: {apiVersion: "v1", kind: "ConfigMap", data: text: "\(base64.Decode(null, observed.secret.data.password))"}
	}
}
`

// A warning of the API server may quote what is written. The log has the text if that depends on nothing sensitive.
func TestWarningsShowNoSensitiveValues(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group := c.group()
	c.deleteCRDs("warneds." + group)
	dir, _ := writeKind(t, strings.ReplaceAll(warnedKind, "GROUP", group))
	warneds := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "warneds"}
	c.create(secrets, "Secret", "s", map[string]any{"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(spilled))}})
	c.warn("configmaps", "", "object.data.text")
	c.warn("warneds/status", group, "object.status.text")

	o := c.start("--kinds", dir, "--shipped-kinds=false")
	for i := 0; !strings.Contains(o.log.String(), "warns: nothing secret"); i++ { // policies take effect after a while
		require.Less(t, i, 60)
		name := fmt.Sprintf("a%d", i)
		c.create(warneds, "Warned", name, map[string]any{"spec": map[string]any{}})
		c.await(warneds, name, "reconciled", func(o *unstructured.Unstructured) bool { return isTrue(o, "Ready") })
	}
	c.create(warneds, "Warned", "last", map[string]any{"spec": map[string]any{}})
	c.await(warneds, "last", "reconciled", func(o *unstructured.Unstructured) bool { return isTrue(o, "Ready") })
	o.awaitLog(`child \"closed\": no details: a value that is not shown is part of it`)
	o.awaitLog(`error="no details: a value that is not shown is part of it`) // the status
	require.NotContains(t, o.log.String(), "Hunter2")
}

// warn has the API server warn of what is written in the namespace, with a value of it.
func (c *cluster) warn(resource, group, value string) {
	c.t.Helper()
	api, name := c.typed.AdmissionregistrationV1(), c.namespace+"-"+strings.ReplaceAll(resource, "/", "-")
	_, err := api.ValidatingAdmissionPolicies().Create(c.t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", MessageExpression: "'warns: ' + " + value}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(c.t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Warn}},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		require.NoError(c.t, api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{}))
		require.NoError(c.t, api.ValidatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
}
