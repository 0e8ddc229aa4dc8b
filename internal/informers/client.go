package informers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/internal/jsontext"
	"github.com/fescue-dev/fescue/internal/projection"
)

// Client reads objects for caches. It is one of NewClient or Decoded.
type Client interface {
	source(Selection, string, projection.Projection) Source
}

// NewClient returns a client that skips, while it reads an answer, what a cache does not keep. It
// never holds more than one object of an answer as a whole.
func NewClient(config *rest.Config) (Client, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion, config.APIPath = nil, "/" // each request has its own path
	client, err := rest.UnversionedRESTClientFor(config)
	return streaming{client}, err
}

type streaming struct{ client rest.Interface }

// parameters encodes the options of requests.
var parameters = func() runtime.ParameterCodec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return runtime.NewParameterCodec(scheme)
}()

func (c streaming) source(selection Selection, namespace string, kept projection.Projection) Source {
	shared := newFilter(selection.Share)
	send := func(ctx context.Context, options metav1.ListOptions) (io.ReadCloser, error) {
		selection.narrow(&options)
		return c.client.Get().AbsPath(pathOf(selection.Resource, namespace)).SetHeader("Accept",
			runtime.ContentTypeJSON).
			SpecificallyVersionedParams(&options, parameters, schema.GroupVersion{Version: "v1"}).Stream(ctx)
	}
	return Source{
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			body, err := send(ctx, options)
			if err != nil {
				return nil, err
			}
			if options.Continue == "" && options.Limit != versionOnly { // not a later page
				shared.begin()
			}
			list, err := readList(body, kept, shared)
			_ = body.Close() // nothing more is read
			return list, err
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			body, err := send(ctx, options)
			if err != nil {
				return nil, err
			}
			if options.SendInitialEvents != nil {
				shared.begin()
			}
			return watcher(&events{close: func() { _ = body.Close() }, next: newFrames(body).next, kept: kept,
				shared: shared, from: options.ResourceVersion}), nil
		},
	}
}

// pathOf returns where the API server serves a resource.
func pathOf(resource schema.GroupVersionResource, namespace string) string {
	root := "/api"
	if resource.Group != "" {
		root = "/apis"
	}
	if namespace != metav1.NamespaceAll {
		return path.Join(root, resource.Group, resource.Version, "namespaces", namespace, resource.Resource)
	}
	return path.Join(root, resource.Group, resource.Version, resource.Resource)
}

// readList reads a list, of which it holds one object at a time as a whole.
func readList(body io.Reader, kept projection.Projection, shared *filter) (*projection.List, error) {
	decoder := json.NewDecoder(bufio.NewReaderSize(body, readSize))
	list := &projection.List{}
	var kind metav1.TypeMeta
	err := eachMember(decoder, func(name string) error {
		switch name {
		case "apiVersion":
			return decoder.Decode(&kind.APIVersion)
		case "kind":
			return decoder.Decode(&kind.Kind)
		case "metadata":
			return decoder.Decode(&list.ListMeta)
		case "items":
			return eachItem(decoder, func(text json.RawMessage) error {
				return appendItem(list, text, kept.In(kind), shared) // lists of built-in types begin with their type
			})
		}
		return decoder.Decode(new(json.RawMessage))
	})
	if err != nil {
		return nil, fmt.Errorf("read a list: %w", err)
	}
	return list, nil
}

// appendItem appends what is kept of an object to a list if it is part of the share.
func appendItem(list *projection.List, text []byte, kept projection.Projection, shared *filter) error {
	parsed, err := jsontext.Parse(text)
	defer parsed.Release()
	if err != nil || !shared.passes(parsed) {
		return err
	}
	o, err := kept.Of(parsed)
	list.Items = append(list.Items, o)
	return err
}

// eachMember calls do at the value of each member of an object, which it has to read.
func eachMember(decoder *json.Decoder, do func(name string) error) error {
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return errors.Join(fmt.Errorf("it begins with %v and not as an object", token), err)
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		if err := do(name.(string)); err != nil { // the decoder accepts no other names
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

// eachItem calls do with each item of a list; null is an empty one.
func eachItem(decoder *json.Decoder, do func(json.RawMessage) error) error {
	if token, err := decoder.Token(); err != nil || token == nil {
		return err
	}
	var text json.RawMessage
	for decoder.More() {
		if err := decoder.Decode(&text); err != nil {
			return err
		}
		if err := do(text); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

// events are those of a watch.
type events struct {
	close  func() // nothing more is read
	next   func() (frame []byte, err error)
	kept   projection.Projection
	shared *filter
	// from is the resource version that the watch started from.
	from string
	// left is an object that has left the share, which is told as a change before it is as a deletion: who only
	// saw the deletion would not know the state before.
	left *projection.Object
}

// watcher returns a watch with these events.
func watcher(e *events) watch.Interface {
	return watch.NewStreamWatcher(e, apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet,
		"ClientWatchDecoding"))
}

// Close implements watch.Decoder.
func (e *events) Close() { e.close() }

// Decode implements watch.Decoder.
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	if left := e.left; left != nil {
		e.left = nil
		return watch.Deleted, left, nil
	}
	for {
		frame, err := e.next()
		if err != nil {
			return "", nil, err
		}
		verb, object, err := e.event(frame)
		if object != nil || err != nil {
			return verb, object, err
		}
	}
}

// event reads an event. The object is nil if it is not part of the share.
func (e *events) event(frame []byte) (watch.EventType, runtime.Object, error) {
	event, err := jsontext.Parse(frame)
	defer event.Release()
	if err != nil {
		return "", nil, fmt.Errorf("event: %w", err)
	}
	object := event.Member("object")
	if !object.Exists() {
		return "", nil, errors.New("event has no object")
	}
	switch t := watch.EventType(event.Member("type").String()); t {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		passes, leaves := e.shared.event(t, object)
		if !passes {
			return "", nil, nil
		}
		o, err := e.kept.Of(object)
		if err != nil {
			return "", nil, err
		}
		if t == watch.Bookmark {
			if older := olderThan(o.GetObjectMeta().GetResourceVersion(), e.from); older != nil {
				return watch.Error, &older.ErrStatus, nil
			}
		}
		if leaves {
			e.left = o
		}
		return t, o, nil
	case watch.Error:
		status := &metav1.Status{}
		return t, status, json.Unmarshal(object.Raw(), status)
	default:
		return "", nil, fmt.Errorf("event of the unknown type %q", t)
	}
}

// Decoded returns a client that decodes objects as a whole before it leaves out what a cache does not
// keep. It is for clients that do not use HTTP, such as those for tests.
func Decoded(client dynamic.Interface) Client { return whole{client} }

type whole struct{ client dynamic.Interface }

func (c whole) source(selection Selection, namespace string, kept projection.Projection) Source {
	api := c.client.Resource(selection.Resource).Namespace(namespace)
	shared := newFilter(selection.Share)
	return Source{
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			selection.narrow(&options)
			found, err := api.List(ctx, options)
			if err != nil {
				return nil, err
			}
			if options.Continue == "" && options.Limit != versionOnly {
				shared.begin()
			}
			list := &projection.List{ListMeta: metav1.ListMeta{ResourceVersion: found.GetResourceVersion(),
				Continue: found.GetContinue()}}
			return list, meta.EachListItem(found, func(object runtime.Object) error {
				text, err := textOf(object)
				if err != nil {
					return err
				}
				return appendItem(list, text, kept, shared)
			})
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			selection.narrow(&options)
			watched, err := api.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return watcher(&events{close: watched.Stop, next: func() ([]byte, error) { return nextFrame(watched) },
				kept: kept, shared: shared, from: options.ResourceVersion}), nil
		},
		Client: c.client,
	}
}

// nextFrame returns the next event of a watch as an API server sends it.
func nextFrame(watched watch.Interface) ([]byte, error) {
	event, ok := <-watched.ResultChan()
	if !ok {
		return nil, io.EOF
	}
	text, err := textOf(event.Object)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"type":%q,"object":%s}`, event.Type, text), nil
}

// textOf returns an object as JSON.
func textOf(object runtime.Object) ([]byte, error) {
	if u, ok := object.(*unstructured.Unstructured); ok { // it would not encode itself without a type
		return json.Marshal(u.Object)
	}
	return json.Marshal(object)
}
