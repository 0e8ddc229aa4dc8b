package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// view is what a list or a watch sees: the objects of a namespace, or of all, that selectors of labels and fields
// match.
type view struct {
	target
	selector labels.Selector
	fields   fieldselector.Selector
	metadata bool // it has the metadata of the objects alone
}

func viewOf(r *http.Request, at target) (view, error) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return view{}, apierrors.NewBadRequest(err.Error())
	}
	of, err := fieldselector.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return view{}, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range of.Requirements() {
		isOfPod := at.Kind == "Pod" && requirement.Field == phaseField
		if requirement.Field != nameField && requirement.Field != namespaceField && !isOfPod {
			return view{}, apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}
	return view{at, selector, of, wantsMetadata(r)}, nil
}

// nameField and namespaceField are what objects of all types can be selected by, and phaseField is for Pods.
const nameField, namespaceField, phaseField = "metadata.name", "metadata.namespace", "status.phase"

func (v view) has(object *unstructured.Unstructured) bool {
	if object == nil || v.namespace != "" && object.GetNamespace() != v.namespace {
		return false
	}
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return v.selector.Matches(labels.Set(object.GetLabels())) && v.fields.Matches(fieldselector.Set{
		nameField: object.GetName(), namespaceField: object.GetNamespace(), phaseField: phase,
	})
}

// shown returns an object as a view has it.
func (v view) shown(object map[string]any) map[string]any {
	if v.metadata {
		return metadataOf(object)
	}
	return object
}

// event returns how a watch sees a change; the type is "" if it does not. An object that leaves the view looks deleted,
// as it was before, with the version of the change.
func (v view) event(c Change) (watch.EventType, *unstructured.Unstructured) {
	if c.table != v.table {
		return "", nil
	}
	switch was, is := v.has(c.Before), v.has(c.After); {
	case is && was:
		return watch.Modified, c.After
	case is:
		return watch.Added, c.After
	case was:
		last := c.Before.DeepCopy()
		last.SetResourceVersion(strconv.Itoa(c.Version))
		return watch.Deleted, last
	}
	return "", nil
}

// watcher is the body of the answer to a watch. It waits for the next change when it is read.
type watcher struct {
	view
	server  *Server
	request context.Context
	closed  context.CancelFunc
	version int // of the last change that it has seen
	// restores is how often the store had been restored when it began.
	restores int
	ended    bool
	pending  []byte
}

// watch begins a watch.
func (s *Server) watch(r *http.Request, at target) (*watcher, error) {
	query := r.URL.Query()
	v, err := viewOf(r, at)
	if err != nil {
		return nil, err
	}
	w := &watcher{view: v, server: s, restores: s.store.restores}
	given := query.Get("resourceVersion")
	if w.version, err = strconv.Atoi(given); given != "" && err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if w.version > s.store.version {
		err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", w.version,
			s.store.version), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge,
			Message: "Too large resource version"}}
		return nil, err
	}
	initial := query.Get("sendInitialEvents") == "true"
	if !initial && w.version > 0 && s.faults.one(s.faults.Forget) {
		return nil, apierrors.NewResourceExpired("a fault")
	}
	if initial || w.version == 0 {
		w.version = s.store.version
		for _, object := range s.store.list(at.table, at.namespace) {
			if w.has(object) {
				w.add(watch.Added, w.shown(object.Object))
			}
		}
	}
	if initial && query.Get("allowWatchBookmarks") == "true" {
		w.add(watch.Bookmark, w.shown(map[string]any{
			"apiVersion": at.GroupVersion().String(), "kind": at.Kind,
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.store.version),
				"annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"}},
		}))
	}
	seconds, err := strconv.Atoi(query.Get("timeoutSeconds"))
	if err != nil {
		w.request, w.closed = context.WithCancel(r.Context())
	} else {
		w.request, w.closed = context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
	}
	return w, nil
}

func (w *watcher) add(kind watch.EventType, object any) {
	w.pending = fmt.Appendf(w.pending, "{\"type\":%q,\"object\":%s}\n", kind, encoded(object))
}

// Read implements io.Reader.
func (w *watcher) Read(to []byte) (n int, err error) {
	for len(w.pending) == 0 {
		if err := w.next(); err != nil {
			return 0, err
		}
		if len(w.pending) == 0 {
			continue
		}
		faults := w.server.disturbed()
		if err := faults.pause(w.request); err != nil {
			return 0, io.EOF
		}
		if faults.one(faults.Lag) && faults.wait(w.request, time.Minute) != nil {
			return 0, io.EOF
		}
		if faults.one(faults.Break) {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n = copy(to, w.pending)
	w.pending = w.pending[n:]
	return n, nil
}

// next waits for changes and adds the events of them.
func (w *watcher) next() error {
	if w.ended {
		return io.EOF
	}
	w.server.mu.Lock()
	written := w.server.written
	changes, err := w.server.store.since(w.version)
	isBroken := w.server.store.restores != w.restores
	isServed := w.server.store.Serves(w.GroupVersionResource)
	w.server.mu.Unlock()
	if !isServed {
		w.ended = true // when it has told that its last objects are gone
	}
	if isBroken {
		return io.ErrUnexpectedEOF
	}
	if failure, isStatus := statusOf(err); isStatus {
		w.add(watch.Error, failure)
		w.ended = true
		return nil
	}
	for _, c := range changes {
		w.version = c.Version
		if kind, object := w.event(c); kind != "" {
			w.add(kind, w.shown(object.Object))
			if faults := w.server.disturbed(); faults.one(faults.Double) {
				w.add(kind, w.shown(object.Object))
			}
		}
	}
	if len(changes) > 0 || w.ended {
		return nil
	}
	select {
	case <-written:
		return nil
	case <-w.request.Done():
		return io.EOF
	}
}

// Close implements io.Closer.
func (w *watcher) Close() error {
	w.closed()
	return nil
}
