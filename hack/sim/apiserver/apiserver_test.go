package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	sequences      = flag.Uint64("sequences", 40, "how many sequences of requests are sent to the model and to the API server")
	requestsOfEach = flag.Int("requests", 40, "how many requests each of them has")
	firstSequence  = flag.Uint64("first-sequence", 0, "seed of the first of them")
)

// served are the types of the sequences: two that Kubernetes has, and two that CRDs define, of which one has a schema.
var served = []Resource{
	must(Of(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})), must(Custom(things)), must(Custom(gadgets)),
	must(Of(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})),
}

// textOf returns the field with the text of objects of a type.
func textOf(r Resource) string {
	if r.Kind == "Secret" {
		return "stringData"
	}
	return "data"
}

func must(r Resource, err error) Resource {
	utilruntime.Must(err)
	return r
}

var things = definition(modelKind("Thing"), apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)})

var gadgets = definition(modelKind("Gadget"), apiextensionsv1.JSONSchemaProps{
	Type: "object",
	Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"data":   {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(1))}}},
		"status": {Type: "object", Default: raw("{}"), Properties: map[string]apiextensionsv1.JSONSchemaProps{"n": {Type: "integer", Maximum: new(1.), Default: raw("0")}}},
		"spec": {
			Type: "object", Default: raw("{}"),
			XValidations: apiextensionsv1.ValidationRules{
				{Rule: "!has(self.most) || !has(self.size) || self.size <= self.most"},
				{Rule: "!has(oldSelf.color) || !has(self.color) || oldSelf.color != 'red' || self.color != 'blue'"},
			},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"size":  {Type: "integer", Default: raw("1"), Minimum: new(0.), Maximum: new(5.)},
				"most":  {Type: "integer"},
				"color": {Type: "string", Default: raw(`"red"`), Enum: []apiextensionsv1.JSON{*raw(`"red"`), *raw(`"blue"`)}},
				"maybe": {Type: "string", Nullable: true, Default: raw("null")},
				"tags":  {Type: "array", XListType: new("set"), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
				"ports": {Type: "array", XListType: new("map"), XListMapKeys: []string{"name"}, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Required: []string{"name"},
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string"}, "port": {Type: "integer", Default: raw("80")}},
				}}},
				"any":      {Type: "object", XPreserveUnknownFields: new(true)},
				"template": {Type: "object", XEmbeddedResource: true, XPreserveUnknownFields: new(true)},
			},
		},
	},
})

// specs are those of Gadgets, and of what is applied.
var specs = []map[string]any{
	{}, {"size": 2}, {"size": 9}, {"size": "2"}, {"size": nil}, {"size": 3, "most": 2}, {"size": 1.0, "most": 2}, {"color": "blue"}, {"color": "red"}, {"color": "green"},
	{"maybe": "x"}, {"maybe": nil}, {"unknown": 1}, {"unknown": map[string]any{"size": 1}, "size": 2}, {"any": map[string]any{"unknown": nil, "a": []any{1}}},
	{"tags": []any{"a", "b"}}, {"tags": []any{"a", "a"}}, {"tags": []any{"c", nil}}, {"tags": nil}, {"ports": []any{map[string]any{"name": "a"}, map[string]any{"name": "b", "port": 1}}},
	{"ports": []any{map[string]any{"name": "a"}, map[string]any{"name": "a"}}}, {"ports": []any{map[string]any{"port": 1}}}, {"ports": map[string]any{}},
	{"template": map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "x": 1}}, {"template": map[string]any{}},
}

func modelKind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "model.example.com", Version: "v1", Kind: name}
}

func raw(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// The model answers requests as the API server does.
func TestModelAnswersAsTheAPIServer(t *testing.T) {
	t.Parallel()
	config := testcluster.Config(t)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	install(t, config, client)
	kubernetes := func(namespace string) *side { return &side{host: config.Host, client: client, namespace: namespace} }
	answer := func(name string, seeds ...uint64) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := testcluster.Namespace(t)
			for _, seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { requireSameAnswers(t, kubernetes(namespace), seed) })
				kubernetes(namespace).clear(t)
			}
		})
	}
	answer("that once differed", onceDiffered...)
	end := *firstSequence + *sequences
	for first := *firstSequence; first < end; first += sequencesOfEach {
		var seeds []uint64
		for seed := first; seed < min(first+sequencesOfEach, end); seed++ {
			seeds = append(seeds, seed)
		}
		answer(fmt.Sprint("from ", first), seeds...)
	}
}

// onceDiffered are the seeds of sequences whose answers differed: two of 100,000.
var onceDiffered = []uint64{1_005_967, 1_083_542}

// sequencesOfEach is how many sequences have a namespace, one after the other: the API server takes longer to delete
// it than to answer a sequence.
const sequencesOfEach = 20

// requireSameAnswers sends the sequence of a seed to the API server and to a model of its own.
func requireSameAnswers(t *testing.T, kubernetes *side, seed uint64) {
	t.Helper()
	store := NewStore(time.Now, served...)
	model := &side{host: "http://model", client: &http.Client{Transport: NewServer(store)}, namespace: kubernetes.namespace}
	random := rand.New(rand.NewPCG(seed, 1))
	began := [2]string{kubernetes.now(t), model.now(t)}
	var story []string
	for range *requestsOfEach {
		o := operationFrom(random)
		expected, got := kubernetes.do(t, o), model.do(t, o)
		story = append(story, fmt.Sprintf("%+v\n  → %s", o, expected))
		require.Equal(t, expected, got, "the model differs; so far:\n%s", strings.Join(story, "\n"))
	}
	for of := range served {
		last := operation{Verb: "create", Name: lastName, Of: of, Change: "label"}
		require.Equal(t, kubernetes.do(t, last), model.do(t, last))
		for _, i := range random.Perm(len(watches))[:watchesOfEach] {
			query := watches[i]
			if query == forgotten && !served[of].isCustom() {
				continue // a young API server still knows the first ConfigMap
			}
			require.Equal(t, kubernetes.watch(t, of, began[0], query), model.watch(t, of, began[1], query), "%s\n%s", query, strings.Join(story, "\n"))
		}
	}
}

// clear deletes all objects of the sequences.
func (s *side) clear(t *testing.T) {
	t.Helper()
	for of := range served {
		_, list := s.exchange(t, http.MethodGet, s.collection(of), "", nil)
		for _, item := range list["items"].([]any) {
			metadata := item.(map[string]any)["metadata"].(map[string]any)
			if metadata["name"] == rootCertificate {
				continue
			}
			path := s.collection(of) + "/" + metadata["name"].(string)
			if metadata["finalizers"] != nil {
				s.exchange(t, http.MethodPatch, path, "application/json-patch+json", []any{map[string]any{"op": "remove", "path": "/metadata/finalizers"}})
			}
			code, _ := s.exchange(t, http.MethodDelete, path, "", nil)
			require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, code)
		}
	}
}

// lastName is the name of the object after which no other event comes.
const lastName = "last"

// watchesOfEach is how many of the watches a sequence has of each type: all of them took a fifth of its time.
const watchesOfEach = 2

// watches are the queries of watches; VERSION stands for a version before all requests.
var watches = []string{
	"resourceVersion=VERSION", "resourceVersion=VERSION&labelSelector=app", "resourceVersion=VERSION&labelSelector=app!=1", "", "resourceVersion=0&labelSelector=app",
	"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&labelSelector=app", forgotten,
}

// forgotten begins at a version of which the changes are not known any more.
const forgotten = "resourceVersion=1"

// install creates the CRDs of the sequences.
func install(t *testing.T, config *rest.Config, httpClient *http.Client) {
	t.Helper()
	client, err := apiextensions.NewForConfig(config)
	require.NoError(t, err)
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	for of, r := range served {
		if r.CRD == nil {
			continue
		}
		_, err = definitions.Create(t.Context(), r.CRD, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, definitions.Delete(context.Background(), r.CRD.Name, metav1.DeleteOptions{}))
		})
		kubernetes := &side{host: config.Host, client: httpClient, namespace: metav1.NamespaceDefault}
		require.True(t, testcluster.WaitUntil(func() bool {
			code, _ := kubernetes.exchange(t, http.MethodGet, kubernetes.collection(of), "", nil)
			return code == http.StatusOK
		}))
	}
}

// operation is a request, without what differs between the servers.
type operation struct {
	Verb, Name string
	Of         int    // the index in served
	Change     string // of the object
	Version    string // current, stale or none
	UID        string // right, wrong or none
	Value      int
	Spec       int
	Manager    string
	Force      bool
	Strict     bool
}

func operationFrom(random *rand.Rand) operation {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	return operation{
		Verb: pick("create", "create", "create", "get", "list", "update", "update", "merge", "merge", "json", "status", "delete", "delete", "apply", "apply", "apply", "apply status"),
		Name: pick("a", "b"), Of: random.IntN(len(served)),
		Change:  pick("data", "no data", "spec", "spec", "spec", "label", "label", "unlabel", "nothing", "hold", "release", "release", "status", "namespace", "version", "kind", "name", "bad name", "no name", "finalizer"),
		Version: pick("current", "current", "stale", "none"), UID: pick("right", "none", "none", "wrong"), Value: random.IntN(3), Spec: random.IntN(len(specs)), Strict: random.IntN(4) == 0,
		Manager: pick("x", "y", "y", ""), Force: random.IntN(3) == 0,
	}
}

// side is one of the two servers, with what is known of it.
type side struct {
	host, namespace string
	client          *http.Client
	uids, versions  []string
}

// do sends a request, and returns the answer without what differs between the servers.
func (s *side) do(t *testing.T, o operation) string {
	t.Helper()
	r, collection := served[o.Of], s.collection(o.Of)
	path, query := collection+"/"+o.Name, "?fieldManager="+o.Manager
	if o.Strict {
		query += "&fieldValidation=Strict"
	}
	switch o.Verb {
	case "create":
		object := map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.Kind, "metadata": map[string]any{"name": o.Name}}
		s.change(object, o)
		return s.send(t, http.MethodPost, collection+query, "application/json", object)
	case "get":
		return s.send(t, http.MethodGet, path, "", nil)
	case "list": // other ConfigMaps have no labels
		return s.send(t, http.MethodGet, collection+"?labelSelector=app&fieldSelector=metadata.name!="+path[strings.LastIndex(path, "/")+1:], "", nil)
	case "merge", "json", "delete", "apply", "apply status":
		live := s.live(t, path)
		metadata := make(map[string]any)
		if version := s.version(live, o.Version); version != "" {
			metadata["resourceVersion"] = version
		}
		if uid := s.uid(live, o.UID); uid != "" {
			metadata["uid"] = uid
		}
		switch o.Verb {
		case "merge":
			patch := map[string]any{"metadata": metadata}
			s.change(patch, o)
			return s.send(t, http.MethodPatch, path+query, "application/merge-patch+json", patch)
		case "apply", "apply status":
			if o.Version == "current" { // mostly, nobody names one
				delete(metadata, "resourceVersion")
			}
			metadata["name"] = o.Name
			given := map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.Kind, "metadata": metadata}
			s.change(given, o)
			if o.Verb == "apply status" {
				path += "/status"
			}
			return s.send(t, http.MethodPatch, fmt.Sprintf("%s%s&force=%t", path, query, o.Force), "application/apply-patch+yaml", given)
		case "json":
			return s.send(t, http.MethodPatch, path+query, "application/json-patch+json", []any{map[string]any{"op": "add", "path": "/" + textOf(r), "value": map[string]any{"j": fmt.Sprint(o.Value)}}})
		}
		return s.send(t, http.MethodDelete, path, "application/json", map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": metadata})
	}
	object := s.live(t, path)
	if object == nil {
		object = map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.Kind, "metadata": map[string]any{"name": o.Name}}
	}
	metadata := object["metadata"].(map[string]any)
	version, uid := s.version(object, o.Version), s.uid(object, o.UID)
	delete(metadata, "resourceVersion")
	delete(metadata, "uid")
	if version != "" {
		metadata["resourceVersion"] = version
	}
	if uid != "" {
		metadata["uid"] = uid
	}
	s.change(object, o)
	if o.Verb == "status" {
		path += "/status"
	}
	return s.send(t, http.MethodPut, path+query, "application/json", object)
}

// collection returns the path of the objects of a type.
func (s *side) collection(of int) string {
	r := served[of]
	base := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		base = "/api/" + r.Version
	}
	return base + "/namespaces/" + s.namespace + "/" + r.Resource
}

// now returns the present version.
func (s *side) now(t *testing.T) string {
	t.Helper()
	_, answer := s.exchange(t, http.MethodGet, s.collection(0), "", nil)
	return answer["metadata"].(map[string]any)["resourceVersion"].(string)
}

// watch returns the events of a watch until that of the last object, and of a bookmark after that if the query asks for one. An error
// ends it, too.
func (s *side) watch(t *testing.T, of int, began, query string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+s.collection(of)+"?watch=true&"+strings.ReplaceAll(query, "VERSION", began), nil)
	require.NoError(t, err)
	response, err := s.client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	var seen []string
	for events := json.NewDecoder(response.Body); ; {
		var event struct {
			Type   string
			Object map[string]any
		}
		require.NoError(t, events.Decode(&event), "after %s", seen)
		metadata, _ := event.Object["metadata"].(map[string]any)
		name := metadata["name"]
		switch event.Type {
		case "BOOKMARK":
			delete(metadata, "resourceVersion") // that of the whole cluster
		case "ERROR":
			delete(event.Object, "message")
		default:
			if name == rootCertificate { // that of Kubernetes
				continue
			}
		}
		seen = append(seen, event.Type+" "+s.shown(t, event.Object))
		if event.Type == "ERROR" || event.Type == "BOOKMARK" || name == lastName && !strings.Contains(query, "Bookmarks") {
			return strings.Join(seen, "\n")
		}
	}
}

// rootCertificate is a ConfigMap that Kubernetes creates in each namespace.
const rootCertificate = "kube-root-ca.crt"

// live returns an object; nil if there is none.
func (s *side) live(t *testing.T, path string) map[string]any {
	t.Helper()
	code, body := s.exchange(t, http.MethodGet, path, "", nil)
	if code != http.StatusOK {
		return nil
	}
	return body
}

func (s *side) version(live map[string]any, which string) string {
	metadata, _ := live["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	switch {
	case which == "none":
		return ""
	case which == "stale" && len(s.versions) > 0:
		return s.versions[0]
	}
	return version
}

func (s *side) uid(live map[string]any, which string) string {
	metadata, _ := live["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	switch which {
	case "none":
		return ""
	case "wrong":
		return "11111111-1111-4111-8111-111111111111"
	}
	return uid
}

// change changes an object, or a patch.
func (s *side) change(object map[string]any, o operation) {
	metadata := object["metadata"].(map[string]any)
	switch o.Change {
	case "data":
		object[textOf(served[o.Of])] = map[string]any{"k": fmt.Sprint(o.Value)}
	case "no data":
		object["data"] = nil
	case "spec":
		if served[o.Of].Kind == "Gadget" {
			object["spec"] = specs[o.Spec]
		}
	case "label":
		metadata["labels"] = map[string]any{"app": fmt.Sprint(o.Value)}
	case "unlabel":
		metadata["labels"] = nil
	case "hold":
		metadata["finalizers"] = []any{"example.com/hold"}
	case "finalizer":
		metadata["finalizers"] = []any{"example.com/hold", "example.com/other"}
	case "release":
		metadata["finalizers"] = []any{}
	case "status":
		if served[o.Of].HasStatus {
			object["status"] = map[string]any{"n": o.Value}
		}
	case "namespace":
		metadata["namespace"] = "elsewhere"
	case "version":
		metadata["resourceVersion"] = "1"
	case "kind":
		object["kind"] = "Other"
	case "name":
		metadata["name"] = "c"
	case "bad name":
		metadata["name"] = "C d"
	case "no name":
		delete(metadata, "name")
	}
}

// exchange sends a request, and returns the answer.
func (s *side) exchange(t *testing.T, method, path, contentType string, body any) (code int, answer map[string]any) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.host+path, reader)
	require.NoError(t, err)
	r.Header.Set("User-Agent", "sequences/1.0")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := s.client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if json.Unmarshal(text, &answer) != nil {
		answer = map[string]any{"text": string(text)}
	}
	return response.StatusCode, answer
}

// send sends a request, and returns the answer as text, in which the uids and the versions are numbered as they were seen.
func (s *side) send(t *testing.T, method, path, contentType string, body any) string {
	t.Helper()
	code, answer := s.exchange(t, method, path, contentType, body)
	if strings.HasSuffix(fmt.Sprint(answer["kind"]), "List") {
		delete(answer, "metadata") // the version is that of the whole cluster
	}
	if answer["kind"] == "Status" {
		delete(answer, "metadata")
		if code >= http.StatusBadRequest { // messages differ in their details
			answer = map[string]any{"reason": answer["reason"]}
		}
	}
	// What an apply of "labels: null" lets go is answered as it was given: nothing was stored that could be read again.
	if metadata, _ := answer["metadata"].(map[string]any); metadata["deletionTimestamp"] != nil && metadata["finalizers"] == nil && metadata["labels"] == nil {
		delete(metadata, "labels")
	}
	return fmt.Sprint(code, " ", s.shown(t, answer))
}

// shown returns an answer, or a part of one, without what differs between the servers.
func (s *side) shown(t *testing.T, answer map[string]any) string {
	t.Helper()
	s.neutral(answer)
	text, err := json.Marshal(answer)
	require.NoError(t, err)
	shown := string(text)
	for i, uid := range s.uids {
		shown = strings.ReplaceAll(shown, uid, fmt.Sprint("uid-", i))
	}
	for i, version := range s.versions {
		shown = strings.ReplaceAll(shown, `"resourceVersion":"`+version+`"`, fmt.Sprintf(`"resourceVersion":"version-%d"`, i))
	}
	return shown
}

// neutral takes out of an answer what differs between the servers, and notes the uids and the versions.
func (s *side) neutral(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			s.neutral(element)
		}
	case map[string]any:
		if fields, ok := value["managedFields"].([]any); ok { // in the order of their times
			slices.SortFunc(fields, func(a, b any) int { return strings.Compare(fmt.Sprint(managerIn(a)), fmt.Sprint(managerIn(b))) })
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			text, _ := value[name].(string)
			switch {
			case text == "":
				s.neutral(value[name])
			case name == "uid" && !slices.Contains(s.uids, text):
				s.uids = append(s.uids, text)
			case name == "resourceVersion" && !slices.Contains(s.versions, text):
				s.versions = append(s.versions, text)
			case strings.HasSuffix(name, "Timestamp"), name == "time": // the latter of managedFields
				value[name] = "set"
			}
		}
	}
}

func managerIn(entry any) []any {
	fields := entry.(map[string]any)
	return []any{fields["manager"], fields["operation"], fields["subresource"], fields["apiVersion"]}
}
