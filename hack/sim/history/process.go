package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// process is the connection of an operator to the server. One that is dead sends and receives nothing.
type process struct {
	history *history
	name    string
	dead    atomic.Bool

	mu sync.Mutex
	// answered are the versions of the objects that it wrote and knows of, and deleted the objects that it deleted.
	answered sets.Set[string]
	deleted  sets.Set[types.UID]
	// created is when it created an object.
	created map[types.UID]time.Time
	// changed is what it changed last of an object, by its path.
	changed map[string]change
}

// change is a change that was carried out, and the version that the object had then.
type change struct{ body, version string }

func newProcess(h *history) *process {
	return &process{history: h, name: fmt.Sprint(operator, h.operators.Add(1)), answered: sets.New[string](),
		deleted: sets.New[types.UID](), created: make(map[types.UID]time.Time), changed: make(map[string]change)}
}

var errKilled = errors.New("the operator was killed")

// RoundTrip implements http.RoundTripper.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.dead.Load() {
		return nil, errKilled
	}
	if !strings.Contains(r.URL.Path, "/namespaces/"+leases+"/") {
		p.history.requests.Add(1)
	}
	if r.Method == http.MethodGet {
		if r.URL.Query().Get("resourceVersion") == "0" {
			p.history.note(fmt.Sprintf("%s %s by %s accepts a state that may be old", r.Method, r.URL, p.name))
		}
		return p.received(p.history.server.RoundTrip(r))
	}
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	isLease, isConditional := strings.Contains(r.URL.Path, "/namespaces/"+leases+"/"), r.Method == http.MethodPost ||
		isConditional(sent)
	if !isConditional && !isLease {
		p.history.note(
			fmt.Sprintf(
				"%s %s by %s does not say which object and which version of it it is for, so it may come too late: %.300s", r.Method, r.URL.Path, p.name, sent))
	}
	send := p.history.server.RoundTrip
	if p.history.stalls() {
		send = p.late(sent)
	}
	response, err := p.received(send(r))
	if err != nil {
		p.history.tell("%s %s %s fails: %v", p.name, r.Method, r.URL.Path, err)
		p.history.noteUnanswered(r, sent)
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	return response, p.note(r, sent, response.StatusCode, answer)
}

// noVersion is one that no object has, so what names it creates one or is rejected.
const noVersion = "1"

// isConditional reports whether a write says of which object, and of which version of it, it is a change: one that
// arrives late is rejected then. A JSON patch, which the engine sends for managedFields alone, may name either.
func isConditional(sent []byte) bool {
	var operations []struct{ Path string }
	if json.Unmarshal(sent, &operations) == nil {
		return slices.ContainsFunc(operations, func(o struct{ Path string }) bool {
			return o.Path == "/metadata/uid" || o.Path == "/metadata/resourceVersion"
		})
	}
	var body struct {
		Metadata, Preconditions struct{ UID, ResourceVersion string }
	}
	err := json.Unmarshal(sent, &body)
	if err != nil { // what is applied may be YAML
		err = yaml.Unmarshal(sent, &body)
	}
	isFor := func(uid, version string) bool { return version == noVersion || uid != "" && version != "" }
	return err == nil && (isFor(body.Metadata.UID, body.Metadata.ResourceVersion) ||
		isFor(body.Preconditions.UID, body.Preconditions.ResourceVersion))
}

// longestStall is how late a request may arrive: later than a Lease ends.
const longestStall = 40 * time.Second

// stalls reports whether a request is to arrive late.
func (h *history) stalls() bool {
	return h.Stall > 0 && time.Since(h.began) < h.Disturbed && h.random.IntN(h.Stall) == 0
}

// stalled returns how long a reconcile may wait for the answer to a write that arrives late.
func (o Options) stalled() time.Duration {
	if o.Stall == 0 {
		return 0
	}
	return longestStall
}

// late returns how a request is sent that arrives late, whether its operator still waits or lives, as that of a process
// that was frozen after it had decided to send it.
func (p *process) late(body []byte) func(*http.Request) (*http.Response, error) {
	type answer struct {
		*http.Response
		error
	}
	return func(r *http.Request) (*http.Response, error) {
		given := r.Context()
		r = r.Clone(context.WithoutCancel(given))
		answered := make(chan answer, 1)
		p.history.late.Go(func() {
			time.Sleep(time.Duration(p.history.random.IntN(int(longestStall))))
			p.history.tell("%s %s by %s arrives late", r.Method, r.URL.Path, p.name)
			response, err := p.history.server.RoundTrip(r)
			p.history.noteUnanswered(r, body)
			p.history.noteLate(r, body)
			if err == nil && given.Err() != nil { // nobody reads it
				_ = response.Body.Close()
			}
			answered <- answer{response, err}
		})
		select {
		case a := <-answered:
			return a.Response, a.error
		case <-given.Done():
			return nil, given.Err()
		}
	}
}

// received returns an answer, unless the operator has been killed meanwhile.
func (p *process) received(response *http.Response, err error) (*http.Response, error) {
	if p.dead.Load() && err == nil {
		_ = response.Body.Close()
		return nil, errKilled
	}
	return response, err
}

// note notes the version of an object that was written. A conflict with a version that the operator has written itself,
// and knows of, means that it wrote from a state older than that.
func (p *process) note(r *http.Request, sent []byte, code int, answer []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Query().Has("dryRun") {
		return nil // nothing is stored
	}
	p.noteDeletion(r, sent, code)
	if code < http.StatusBadRequest {
		var stored metav1.PartialObjectMetadata
		if err := json.Unmarshal(answer, &stored); err != nil {
			return err
		}
		p.answered.Insert(stored.ResourceVersion)
		if r.Method == http.MethodPost {
			p.created[stored.UID] = time.Now()
		}
		now := change{string(sent), stored.ResourceVersion}
		isRenewal := strings.Contains(r.URL.Path, "/leases/") // it says the time, which may stand still here
		was, isChange := p.changed[r.URL.Path], r.Method == http.MethodPatch || r.Method == http.MethodPut
		if isChange && !isRenewal && was == now && !p.history.wasRestored() { // versions are used again then
			p.history.note(fmt.Sprintf("%s %s by %s changes nothing again: %.300s", r.Method, r.URL.Path, p.name, sent))
		}
		p.changed[r.URL.Path] = now
		return nil
	}
	var status metav1.Status
	if err := json.Unmarshal(answer, &status); err != nil {
		return err
	}
	p.history.tell("%s %s %s fails: %.200s", p.name, r.Method, r.URL.Path, status.Message)
	if code != http.StatusConflict {
		return nil
	}
	p.history.noteUnanswered(r, sent) // the operator reads next what has the name, which may fail
	live := p.conflicting(r.URL.Path, status.Details)
	if live == nil || !p.answered.Has(live.GetResourceVersion()) {
		return nil
	}
	if r.Method != http.MethodDelete { // only what was written for the same object is known
		var wanted metav1.PartialObjectMetadata
		if err := json.Unmarshal(sent, &wanted); err != nil {
			return err
		}
		owner, of := metav1.GetControllerOf(&wanted), metav1.GetControllerOf(live)
		isOther := owner != nil && of != nil && owner.UID != of.UID
		if isOther || r.Method == http.MethodPost && (owner == nil || of == nil) {
			return nil
		}
	}
	if !p.history.wasRestored() {
		p.history.note(fmt.Sprintf("%s %s by %s is based on a state older than its last write: %s", r.Method,
			r.URL.Path, p.name, status.Message))
	}
	return nil
}

// noteDeletion notes an object that was deleted. A second deletion means that the operator does not remember the first
// one.
func (p *process) noteDeletion(r *http.Request, sent []byte, code int) {
	uid := deleted(r, sent)
	if uid == "" {
		return // another check asks for the preconditions
	}
	// the event of its creation may come after that: one that is late, or any where all happens at once
	mayBeShownYet := p.history.Faults.Lag > 0 || time.Since(p.created[uid]) < time.Second
	if p.deleted.Has(uid) && !p.history.wasRestored() && !mayBeShownYet {
		p.history.note(fmt.Sprintf("%s %s by %s deletes %s again", r.Method, r.URL.Path, p.name, uid))
	}
	if code < http.StatusBadRequest {
		p.deleted.Insert(uid)
	}
}

// conflicting returns the object with which a write is in conflict; nil if it is gone.
func (p *process) conflicting(path string, with *metav1.StatusDetails) (live *unstructured.Unstructured) {
	if with == nil {
		return nil
	}
	i := slices.IndexFunc(p.history.Served,
		func(r apiserver.Resource) bool { return r.Resource == with.Kind && r.Group == with.Group })
	if i < 0 {
		return nil
	}
	resource, name := p.history.Served[i], types.NamespacedName{Name: with.Name}
	if !resource.IsClusterScoped {
		_, rest, _ := strings.Cut(path, "/namespaces/")
		name.Namespace, _, _ = strings.Cut(rest, "/")
	}
	p.history.server.Do("", func(s *apiserver.Store) { live = s.Get(resource.GroupVersionResource, name) })
	return live
}

// deleted returns the UID of the object that a request deletes; it is empty if it deletes none, or does not say that.
func deleted(r *http.Request, sent []byte) types.UID {
	var options metav1.DeleteOptions
	err := json.Unmarshal(sent, &options)
	if r.Method != http.MethodDelete || err != nil || options.Preconditions == nil {
		return ""
	}
	return ptr.Deref(options.Preconditions.UID, "")
}

// created returns the object that a request creates; nil if it creates none, or a Lease.
func created(r *http.Request, sent []byte) *unstructured.Unstructured {
	object := new(unstructured.Unstructured)
	if err := object.UnmarshalJSON(sent); r.Method != http.MethodPost || err != nil {
		return nil
	}
	return object
}
