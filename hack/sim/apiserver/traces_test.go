package apiserver

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

var auditLog = flag.String("audit-log", "", "the audit log of an API server, whose writes TestModelRepeatsATrace sends to the model")

// difference is what differs in an answer of the model.
type difference struct {
	kind, field   string // field is verb or code if one of these differs
	model, server string
}

func (d difference) String() string {
	return fmt.Sprintf("%s, %s", d.kind, d.field)
}

// unlike are the answers that the model does not give as the API server does, and why.
var unlike = []struct {
	because string
	is      func(of *table, d difference) bool
}{
	{
		"the API server sets defaults of Kubernetes' own types, and its admission plugins add more; the model does not",
		func(of *table, d difference) bool { return !of.isCustom() && d.model == "<nil>" },
	},
	{
		"the API server knows which structs of Kubernetes' own types are always there, so managedFields do not name them",
		func(of *table, d difference) bool {
			return !of.isCustom() && strings.HasPrefix(d.field, "metadata.managed.") && d.server == "<nil>"
		},
	},
	{
		"the API server validates Kubernetes' own types; the model knows the rules for names alone",
		func(of *table, d difference) bool { return !of.isCustom() && d.server == "422 Invalid" },
	},
	{
		"an admission plugin mounts the token of a service account",
		func(of *table, d difference) bool {
			return of.Kind == "Pod" && (d.field == "spec.volumes" || d.field == "spec.containers[].volumeMounts") && strings.Contains(d.server, "name:kube-api-access-")
		},
	},
	{
		"a Pod has some seconds to end",
		func(of *table, d difference) bool {
			return of.Kind == "Pod" && d.field == "metadata.deletionGracePeriodSeconds"
		},
	},
	{
		"an empty list of rules is null",
		func(of *table, d difference) bool { return !of.isCustom() && d.field == "rules" && d.model == "[]" },
	},
	{
		"a controller of Deployments writes annotations with the status",
		func(of *table, d difference) bool {
			return of.Kind == "Deployment" && strings.HasPrefix(d.field, "metadata.annotations.deployment.kubernetes.io/")
		},
	},
	{
		"the API server answers the deletion of most of Kubernetes' own types with the object; Pods and namespaces go later",
		func(of *table, d difference) bool { return !of.isCustom() && d.field == "deleted" },
	},
}

// The model answers each write of a trace as the API server has, given the same state before.
func TestModelRepeatsATrace(t *testing.T) {
	if *auditLog == "" {
		t.Skip("it needs the writes of other tests: make test-traces")
	}
	r := newReplay()
	for _, e := range tracedIn(t, *auditLog) {
		r.counts[r.repeat(t, &e)]++
	}
	for _, what := range slices.Sorted(maps.Keys(r.counts)) {
		t.Logf("%d requests %s", r.counts[what], what)
	}
	require.Positive(t, r.counts[compared])
	for _, what := range slices.Sorted(maps.Keys(r.expected)) {
		t.Logf("%d times, %s", r.expected[what], what)
	}
	for _, what := range slices.Sorted(maps.Keys(r.differences)) {
		t.Errorf("%s", strings.Join(r.differences[what][:min(3, len(r.differences[what]))], "\n"))
	}
}

// traced is a request and its answer.
type traced struct {
	auditv1.Event
	object   map[string]any // that was answered
	resource schema.GroupVersionResource
	key      key
	version  int // of the answer; 0 is none
	// overlaps means that it was answered while another write of the object was: the log does not say which came first.
	overlaps bool
}

// tracedIn returns the writes of an audit log. Those of an object are in the order of its versions, as far as they have some.
func tracedIn(t *testing.T, file string) (all []traced) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // the last line may be half of one
		}
		var e traced
		require.NoError(t, json.Unmarshal(line, &e.Event))
		ref := e.ObjectRef
		if ref == nil || e.ResponseStatus == nil {
			continue
		}
		if e.ResponseObject != nil {
			require.NoError(t, utiljson.Unmarshal(e.ResponseObject.Raw, &e.object))
		}
		answered := &unstructured.Unstructured{Object: e.object}
		e.resource = schema.GroupVersionResource{Group: ref.APIGroup, Version: ref.APIVersion, Resource: ref.Resource}
		e.key = key{ref.Namespace, ref.Name}
		if answered.GetKind() != "Status" && e.object != nil {
			e.key.name = cmp.Or(e.key.name, answered.GetName())
			e.version, _ = strconv.Atoi(answered.GetResourceVersion())
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b traced) int { return a.StageTimestamp.Compare(b.StageTimestamp.Time) })
	of := make(map[string][]int)
	last := make(map[string]*traced)
	for i := range all {
		e := &all[i]
		id := idIn(e.resource, e.key)
		if before := last[id]; before != nil && e.RequestReceivedTimestamp.Before(&before.StageTimestamp) {
			e.overlaps, before.overlaps = true, true
		}
		last[id] = e
		if e.version > 0 {
			of[id] = append(of[id], i)
		}
	}
	for _, places := range of {
		sorted := make([]traced, 0, len(places))
		for _, i := range places {
			sorted = append(sorted, all[i])
		}
		slices.SortStableFunc(sorted, func(a, b traced) int { return cmp.Compare(a.version, b.version) })
		for n, i := range places {
			all[i] = sorted[n]
		}
	}
	return all
}

// replay sends the requests of a trace to the model. Before each, the model has the object as the API server had it: a difference has
// no other one as its cause.
type replay struct {
	store *Store
	// patch is what the webhooks changed in the present request, as JSON.
	patch       []byte
	counts      map[string]int      // of what became of the requests
	expected    map[string]int      // differences for each reason
	differences map[string][]string // others
	unknown     map[string]bool     // objects that something has changed which the trace does not show
	redefined   sets.Set[string]    // the names of CRDs that have changed
}

// compared is what becomes of a request whose answers were compared.
const compared = "were compared"

func newReplay() *replay {
	r := &replay{
		store: NewStore(time.Now), counts: make(map[string]int), expected: make(map[string]int), differences: make(map[string][]string), unknown: make(map[string]bool),
		redefined: sets.New[string](),
	}
	hook := admissionregistrationv1.MutatingWebhook{
		Name: "recorded.example.com", FailurePolicy: new(admissionregistrationv1.Fail), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: new("/")}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}, Scope: new(admissionregistrationv1.AllScopes)},
		}},
	}
	r.store.Webhooks = NewWebhooks(&admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{hook}},
		new(admissionregistrationv1.ValidatingWebhookConfiguration), r.answer)
	return r
}

// table returns that of the type of a request. The model serves a type of Kubernetes when an object is first seen, and one of a CRD when
// the CRD is; nil is a type or a version that it does not serve.
func (r *replay) table(t *testing.T, e *traced) *table {
	t.Helper()
	kind := (&unstructured.Unstructured{Object: e.object}).GroupVersionKind()
	if at := r.store.table(e.resource); at != nil || e.version == 0 || e.ObjectRef.Subresource != "" || !scheme.Scheme.Recognizes(kind) {
		return at
	}
	resource, err := Of(kind)
	require.NoError(t, err)
	r.serve(resource)
	return r.store.table(e.resource)
}

// define has the model serve what a CRD defines, unless that has several versions.
func (r *replay) define(t *testing.T, e *traced) {
	t.Helper()
	crd := new(apiextensionsv1.CustomResourceDefinition)
	require.NoError(t, json.Unmarshal(e.ResponseObject.Raw, crd))
	i := slices.IndexFunc(r.store.tables, func(at *table) bool { return at.isCustom() && at.CRD.Name == crd.Name })
	switch {
	case i < 0 && len(crd.Spec.Versions) == 1:
		resource, err := Custom(crd)
		require.NoError(t, err)
		r.serve(resource)
	case i >= 0 && !equality.Semantic.DeepEqual(r.store.tables[i].CRD.Spec, crd.Spec):
		r.redefined.Insert(crd.Name)
	}
}

func (r *replay) serve(resource Resource) {
	r.store.tables = append(r.store.tables, NewStore(time.Now, resource).tables...)
}

// answer is that of the webhooks of the trace, once for each request.
func (r *replay) answer(_ string, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if r.patch != nil {
		review.Response.Patch, review.Response.PatchType = r.patch, new(admissionv1.PatchTypeJSONPatch)
	}
	r.patch = nil
	return review, nil
}

// recorded returns what webhooks changed in a request, as JSON; nil is nothing.
func recorded(t *testing.T, e *traced) []byte {
	t.Helper()
	var all []any
	for _, name := range slices.Sorted(maps.Keys(e.Annotations)) {
		if strings.HasPrefix(name, "patch.webhook.admission.k8s.io/") {
			var patch struct{ Patch []any }
			require.NoError(t, json.Unmarshal([]byte(e.Annotations[name]), &patch))
			all = append(all, patch.Patch...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return encoded(all)
}

// repeat sends a request to the model, and says what became of it.
func (r *replay) repeat(t *testing.T, e *traced) string {
	t.Helper()
	if e.resource.Resource == "customresourcedefinitions" && e.version > 0 {
		r.define(t, e)
	}
	at, id := r.table(t, e), idIn(e.resource, e.key)
	request := r.requestFor(t, e)
	r.patch, r.store.changes = recorded(t, e), nil
	isStatus := e.ObjectRef.Subresource == "status"
	switch {
	case at == nil:
		return "are about types that the model does not serve, or that have several versions"
	case at.isCustom() && r.redefined.Has(at.CRD.Name):
		return "are about types whose CRD was changed: it does not take effect at once"
	case strings.HasPrefix(e.UserAgent, "kube-apiserver/"):
		r.become(at, e)
		return "were sent by the API server to itself"
	case r.patch != nil && !at.isCustom():
		r.become(at, e)
		return "were changed by webhooks after the defaults of Kubernetes' own types were set"
	case e.Verb == "deletecollection":
		for k := range at.objects {
			if k.namespace == e.key.namespace {
				r.unknown[idIn(e.resource, k)] = true
			}
		}
		return "delete collections, which the model does not know"
	case e.ResponseStatus.Code == http.StatusGatewayTimeout:
		r.unknown[id] = true
		return "were given up by their clients: the log does not say whether they were carried out"
	case e.RequestObject == nil && e.Verb != "delete":
		return "were about a type that was not served yet"
	case request == nil || e.ObjectRef.Subresource != "" && !isStatus || isStatus && (!at.HasStatus || at.Kind == "Namespace"):
		r.become(at, e)
		return "are strategic merge patches or use other subresources than the status, which the model does not know"
	}
	isKnown := !r.unknown[id] && !r.hasMissed(t, e, at.objects[e.key])
	response, err := NewServer(r.store).RoundTrip(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var answer map[string]any
	require.NoError(t, utiljson.Unmarshal(text, &answer))
	r.store.undo(0)
	r.become(at, e)
	message := e.ResponseStatus.Message
	isTerminating := strings.Contains(message, "is being terminated")
	switch {
	case !isKnown:
		return "are about an object that was changed in a way which the model does not know"
	case e.overlaps && (e.version == 0 || e.Verb == "delete"), r.isEnding(e) && (e.ResponseStatus.Code == http.StatusNotFound || e.Verb == "create" && e.version > 0):
		return "failed, deleted or created the object while something else changed it or its namespace: the log does not say which came first"
	case strings.Contains(message, "admission webhook ") || strings.Contains(message, "failed calling webhook"):
		return "were rejected by webhooks"
	case e.ResponseStatus.Code == http.StatusForbidden && !isTerminating:
		return "were rejected by admission plugins, or for lack of rights"
	}
	r.compare(e, at, response.StatusCode, answer)
	return compared
}

// hasMissed reports whether the answer to a write shows that the object was changed by what the trace does not show, as the API server deletes
// the objects of a CRD that is deleted: it was created though there is one, or the version that it was based on is not the known one.
func (r *replay) hasMissed(t *testing.T, e *traced, known *unstructured.Unstructured) bool {
	t.Helper()
	if known == nil || e.version == 0 {
		return false
	}
	var sent struct {
		Metadata struct{ ResourceVersion string }
	}
	if e.Verb == "update" {
		require.NoError(t, json.Unmarshal(e.RequestObject.Raw, &sent))
	}
	basis := sent.Metadata.ResourceVersion
	return e.Verb == "create" || basis != "" && basis != known.GetResourceVersion()
}

// isEnding reports whether the namespace of a request is being deleted.
func (r *replay) isEnding(e *traced) bool { return r.store.namespaces[e.key.namespace] == ends }

// idIn returns what identifies an object in whatever version.
func idIn(resource schema.GroupVersionResource, k key) string {
	return fmt.Sprint(resource.GroupResource(), k)
}

// become gives the model the state that the API server had after a request.
func (r *replay) become(at *table, e *traced) {
	object := &unstructured.Unstructured{Object: e.object}
	isObject := e.version > 0 && object.GetKind() == at.Kind
	switch {
	case strings.Contains(e.RequestURI, "dryRun") || e.ResponseStatus.Code >= http.StatusBadRequest:
		return
	case at.Kind == "Namespace" && e.Verb == "delete":
		r.store.namespaces[e.key.name] = ends
	case e.Verb == "delete" && !isObject, isObject && isOver(object):
		delete(at.objects, e.key)
		delete(r.unknown, idIn(e.resource, e.key))
		return
	}
	if isPart(object) && at.objects[e.key] != nil {
		isObject = true
		whole := maps.Clone(at.objects[e.key].Object)
		whole["metadata"] = object.Object["metadata"]
		object = &unstructured.Unstructured{Object: whole}
	}
	if r.unknown[idIn(e.resource, e.key)] = !isObject; isObject {
		at.objects[e.key] = object
	}
}

// isPart reports whether an answer has the metadata of an object only, as the garbage collector asks for it.
func isPart(object *unstructured.Unstructured) bool {
	return object.GetKind() == "PartialObjectMetadata"
}

// isOver reports whether a write was the last one of an object. A Pod has some seconds to end.
func isOver(object *unstructured.Unstructured) bool {
	grace := object.GetDeletionGracePeriodSeconds()
	return object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// requestFor returns the request of a trace; nil if the model knows no such.
func (r *replay) requestFor(t *testing.T, e *traced) *http.Request {
	t.Helper()
	var body []byte
	if e.RequestObject != nil {
		body = e.RequestObject.Raw
	}
	method, contentType := map[string]string{"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete}[e.Verb], "application/json"
	if e.Verb == "patch" {
		at, err := url.Parse(e.RequestURI)
		require.NoError(t, err)
		var given struct{ APIVersion, Kind string }
		_ = json.Unmarshal(body, &given) // a JSON patch is a list
		switch isApplied := given.APIVersion != "" && given.Kind != "" && at.Query().Get("fieldManager") != ""; {
		case isApplied:
			contentType = string(types.ApplyYAMLPatchType)
		case bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")):
			contentType = string(types.JSONPatchType)
		case scheme.Scheme.IsGroupRegistered(e.resource.Group) && !strings.HasPrefix(e.UserAgent, "fescue"):
			return nil // strategic
		default:
			contentType = string(types.MergePatchType)
		}
	}
	request := httptest.NewRequestWithContext(t.Context(), method, e.RequestURI, bytes.NewReader(body))
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", e.UserAgent)
	return request
}

// compare notes what differs in an answer.
func (r *replay) compare(e *traced, at *table, code int, answer map[string]any) {
	note := func(field, model, server string) {
		d := difference{at.Kind, field, model, server}
		for _, u := range unlike {
			if u.is(at, d) {
				r.expected[u.because]++
				return
			}
		}
		r.differences[d.String()] = append(r.differences[d.String()],
			fmt.Sprintf("%v: %s, not %s, after %s %s by %s: %s", d, model, server, e.Verb, e.RequestURI, e.UserAgent, e.ResponseStatus.Message))
	}
	if reason, _ := answer["reason"].(string); int(e.ResponseStatus.Code) != code || string(e.ResponseStatus.Reason) != reason {
		note(e.Verb, fmt.Sprintf("%d %s %v", code, reason, answer["message"]), fmt.Sprintf("%d %s", e.ResponseStatus.Code, e.ResponseStatus.Reason))
		return
	}
	if code >= http.StatusBadRequest {
		return
	}
	expected := runtime.DeepCopyJSON(e.object)
	if answer["kind"] != expected["kind"] && e.Verb == "delete" {
		note("deleted", fmt.Sprint(answer["kind"]), fmt.Sprint(expected["kind"]))
		return
	}
	if isPart(&unstructured.Unstructured{Object: expected}) {
		expected, answer = map[string]any{"metadata": expected["metadata"]}, map[string]any{"metadata": answer["metadata"]}
	}
	for _, object := range []map[string]any{expected, answer} {
		withoutValues(object, e.Verb == "create" || code == http.StatusCreated)
	}
	for _, path := range changes("", answer, expected) {
		field, values, _ := strings.Cut(path, ": ")
		model, server, _ := strings.Cut(values, " → ")
		note(indexes.ReplaceAllString(field, "[]"), model, server)
	}
}

var indexes = regexp.MustCompile(`\[\d+\]`)

// withoutValues removes what no two servers have alike.
func withoutValues(object map[string]any, isNew bool) {
	metadata, isObject := object["metadata"].(map[string]any)
	if !isObject {
		return
	}
	delete(metadata, "resourceVersion")
	for _, name := range []string{"creationTimestamp", "deletionTimestamp"} {
		if metadata[name] != nil {
			metadata[name] = "set"
		}
	}
	if isNew {
		delete(metadata, "uid")
	}
	if metadata["generateName"] != nil && isNew {
		delete(metadata, "name")
	}
	entries, _ := metadata["managedFields"].([]any)
	byManager := make(map[string]any)
	for _, entry := range entries {
		byManager[fmt.Sprint(managerIn(entry)...)] = entry.(map[string]any)["fieldsV1"]
	}
	metadata["managed"] = byManager // changes does not look into managedFields
	delete(metadata, "managedFields")
}
