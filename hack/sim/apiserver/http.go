package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Server serves a store to clients, of which it is the transport. One lock guards the store, as etcd orders all writes.
type Server struct {
	mu      sync.Mutex
	store   *Store
	written chan struct{} // closed by the next write
	faults  Faults
	// forbidden is the resource that no client may use; nil is none.
	forbidden *schema.GroupVersionResource
}

// NewServer returns a server of a store.
func NewServer(store *Store) *Server { return &Server{store: store, written: make(chan struct{})} }

// Do changes the store as no request can, under the name that stories give to whoever does it.
func (s *Server) Do(by string, change func(*Store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.by = by
	defer func() { s.store.by = "" }()
	before := s.store.version
	restores := s.store.restores
	change(s.store)
	if s.store.restores > restores {
		before = 0
	}
	s.tell(before)
}

// Written returns a channel that the next write closes.
func (s *Server) Written() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// Disturb has things go wrong from now on as a Faults says.
func (s *Server) Disturb(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Forbid withdraws the rights to a resource from all clients, or gives back those that are withdrawn: nil.
func (s *Server) Forbid(resource *schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden = resource
}

func (s *Server) disturbed() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// tell wakes the watches if something was written after a version.
func (s *Server) tell(before int) {
	if s.store.version > before {
		close(s.written)
		s.written = make(chan struct{})
	}
}

// RoundTrip answers a request.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	faults := s.disturbed()
	if err := faults.pause(r.Context()); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	err := faults.failure()
	code, answer := 0, any(nil)
	if err == nil {
		code, answer, err = s.carryOut(r, body)
	}
	if err != nil {
		failure, isStatus := statusOf(err)
		if !isStatus {
			return nil, err
		}
		code, answer = int(failure.Code), failure
	}
	if stream, isWatch := answer.(*watcher); isWatch {
		return respond(r, code, stream), nil
	}
	if err := faults.pause(r.Context()); err != nil {
		return nil, err
	}
	if faults.one(faults.Lose) {
		return nil, errReset
	}
	return respond(r, code, io.NopCloser(bytes.NewReader(encoded(answer)))), nil
}

// carryOut carries out a request alone.
func (s *Server) carryOut(r *http.Request, body []byte) (code int, answer any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell(s.store.version)
	s.store.by = r.UserAgent()
	defer func() { s.store.by = "" }()
	if r.URL.Query().Get("dryRun") == metav1.DryRunAll {
		defer s.store.undo(len(s.store.changes))
	}
	return s.answer(r, body)
}

func respond(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}

// statusOf returns an error as the API server sends it, unless it is none that it could send.
func statusOf(err error) (failure metav1.Status, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return failure, false
	}
	failure = status.Status()
	failure.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return failure, true
}

// target is what a request is about.
type target struct {
	*table
	key
	status bool
}

// targetOf reads the path of a request.
func (s *Server) targetOf(r *http.Request) (found target, err error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var resource schema.GroupVersionResource
	switch {
	case len(parts) > 2 && parts[0] == "api":
		resource.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		resource.Group, resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return found, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "",
			0, true)
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		found.namespace, parts = parts[1], parts[2:]
	}
	resource.Resource = parts[0]
	if len(parts) > 1 {
		found.name = parts[1]
	}
	found.status = len(parts) == 3 && parts[2] == "status"
	found.table = s.store.table(resource)
	if found.table == nil || found.status && !found.HasStatus || len(parts) > 2 && !found.status {
		return found, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, resource.GroupResource(),
			found.name, "", 0, true)
	}
	return found, nil
}

// answer carries out a request, and returns what to encode, or an error with a status.
func (s *Server) answer(r *http.Request, body []byte) (code int, answer any, err error) {
	at, err := s.targetOf(r)
	if err != nil {
		return 0, nil, err
	}
	if s.forbidden != nil && *s.forbidden == at.GroupVersionResource {
		return 0, nil, apierrors.NewForbidden(at.GroupResource(), at.name, errors.New("the right was withdrawn"))
	}
	switch r.Method {
	case http.MethodGet:
		if at.name == "" && r.URL.Query().Get("watch") != "" {
			stream, err := s.watch(r, at)
			return http.StatusOK, stream, err
		}
		if at.name == "" {
			found, err := s.list(r, at)
			return http.StatusOK, found, err
		}
		object, err := s.store.get(at.table, at.key)
		return http.StatusOK, object, err
	case http.MethodPost:
		given, err := decoded(body)
		if err != nil {
			return 0, nil, err
		}
		object, err := s.store.create(at.table, at.namespace, given, authorOf(r))
		return http.StatusCreated, object, err
	case http.MethodPut:
		given, err := decoded(body)
		if err != nil {
			return 0, nil, err
		}
		object, err := s.store.update(at.table, at.key, at.status, given, authorOf(r))
		return http.StatusOK, object, err
	case http.MethodPatch:
		if kind := types.PatchType(r.Header.Get("Content-Type")); kind != types.ApplyYAMLPatchType {
			object, err := s.patch(at, kind, body, authorOf(r))
			return http.StatusOK, object, err
		}
		return s.apply(r, at, body)
	case http.MethodDelete:
		return s.delete(at, body)
	}
	return 0, nil, apierrors.NewMethodNotSupported(at.GroupResource(), r.Method)
}

// authorOf returns that of a request. As for the API server, a manager without a name has that at the start of the user
// agent.
func authorOf(r *http.Request) author {
	product, _, _ := strings.Cut(r.UserAgent(), "/")
	query := r.URL.Query()
	return author{
		manager: cmp.Or(query.Get("fieldManager"), product), user: product,
		isStrict: query.Get("fieldValidation") == metav1.FieldValidationStrict,
	}
}

// apply is server-side apply.
func (s *Server) apply(r *http.Request, at target, body []byte) (code int, answer any, err error) {
	manager := r.URL.Query().Get("fieldManager")
	if manager == "" {
		return 0, nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "",
			field.ErrorList{
				field.Required(field.NewPath("fieldManager"), "is required for apply patch"),
			})
	}
	given := new(unstructured.Unstructured)
	text, err := yaml.YAMLToJSON(body)
	if err == nil {
		err = utiljson.Unmarshal(text, &given.Object)
	}
	if err != nil {
		return 0, nil, apierrors.NewBadRequest(err.Error())
	}
	object, isNew, err := s.store.apply(at.table, at.key, at.status, given, authorOf(r),
		r.URL.Query().Get("force") == "true")
	if isNew {
		return http.StatusCreated, object, err
	}
	return http.StatusOK, object, err
}

func (s *Server) list(r *http.Request, at target) (any, error) {
	v, err := viewOf(r, at)
	if err != nil {
		return nil, err
	}
	items := []any{}
	for _, object := range s.store.list(at.table, at.namespace) {
		if !v.has(object) {
			continue
		}
		item := maps.Clone(object.Object)
		if !at.isCustom() { // the list says it for all
			delete(item, "apiVersion")
			delete(item, "kind")
		}
		if v.metadata {
			item = metadataOf(item)
		}
		items = append(items, item)
	}
	apiVersion, kind := at.GroupVersion().String(), at.Kind
	if v.metadata {
		apiVersion, kind = metav1.SchemeGroupVersion.String(), "PartialObjectMetadata"
	}
	return map[string]any{
		"apiVersion": apiVersion, "kind": kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.store.version)}, "items": items,
	}, nil
}

// patch changes an object by a merge patch or a JSON patch.
func (s *Server) patch(at target, kind types.PatchType, body []byte, by author) (*unstructured.Unstructured, error) {
	live, err := s.store.get(at.table, at.key)
	if err != nil {
		return nil, err
	}
	text := encoded(live)
	switch kind {
	case types.MergePatchType:
		text, err = jsonpatch.MergePatch(text, body)
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(body); err == nil {
			text, err = p.Apply(text)
		}
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, http.MethodPatch,
			at.GroupResource(), at.name, string(kind), 0, true)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	given, err := decoded(text)
	if err != nil {
		return nil, err
	}
	if !at.isCustom() {
		if err := at.validate(at.status, given, live); err != nil {
			return nil, err
		}
	}
	changed, err := at.decode(given, by.isStrict)
	if err != nil { // the patch was well formed, and what came out is not
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "",
			field.ErrorList{field.Invalid(field.NewPath("patch"), "", err.Error())})
	}
	if changed.GetResourceVersion() == "" {
		changed.SetResourceVersion(live.GetResourceVersion())
	}
	return s.store.replacePatched(at.table, at.key, live, at.status, at.written(at.status, live, changed, by.manager),
		by, false)
}

// delete deletes an object. What is gone is answered with a status, and what has to wait for its finalizers with the
// object.
func (s *Server) delete(at target, body []byte) (code int, answer any, err error) {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return 0, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	object, isGone, err := s.store.delete(at.table, at.key, options)
	if err != nil || !isGone {
		return http.StatusOK, object, err
	}
	return http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: at.name, Group: at.Group, Kind: at.GroupResource().Resource,
			UID: object.GetUID()},
	}, nil
}
