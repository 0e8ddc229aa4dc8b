package inject

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/jsontext"
)

// StatusAnnotation reports on a Pod what was injected into it, and why something was not. Its
// value is JSON: {"Kind.group/name": {"generation": 3}, …}, or {"reason": …, "message": …}.
const StatusAnnotation = "fescue.dev/injected"

// Reason is the result of an injection in one word.
type Reason string

const (
	// Injected means that the patch adds it.
	Injected Reason = "Injected"
	// Present means that the Pod has it already.
	Present Reason = "Present"
	// NotFound means that the Pod names an object that its namespace does not have.
	NotFound Reason = "NotFound"
	// Unavailable means that the kind is not running, so its objects are not known.
	Unavailable Reason = "Unavailable"
	// Conflict means that the Pod has conflicting settings.
	Conflict Reason = "Conflict"
	// Incomplete means that the Pod does not have something that the injection needs.
	Incomplete Reason = "Incomplete"
	// Invalid means that the Pod would be invalid for another reason.
	Invalid Reason = "Invalid"
	// PodSecurity means that the Pod Security level of the namespace forbids it: the API server
	// would reject the Pod.
	PodSecurity Reason = "PodSecurity"
	// Forbidden means that the object would reach what only the Pod's author was granted.
	Forbidden Reason = "Forbidden"
	// Stalled means that the object has a problem: it is not valid, or what it refers to may not be
	// its own.
	Stalled Reason = "Stalled"
	// TooMany means that other objects are as many as may be injected into one Pod.
	TooMany Reason = "TooMany"
	// TooLarge means that the annotations of the Pod would exceed their limit.
	TooLarge Reason = "TooLarge"
	// MirrorPod means that the Pod mirrors a static one, which a kubelet runs from its own files.
	MirrorPod Reason = "MirrorPod"
	// ExcludedNamespace means that the cluster needs the Pods of the namespace to run.
	ExcludedNamespace Reason = "ExcludedNamespace"
)

// SkipReasons are the reasons for which nothing is added to a Pod.
var SkipReasons = []Reason{Present, NotFound, Unavailable, Conflict, Incomplete, Invalid, PodSecurity, Forbidden,
	Stalled, TooMany, TooLarge, MirrorPod, ExcludedNamespace}

// Outcome is the result of one injection.
type Outcome struct {
	Object
	// Generation is that of the object as it is or was injected; it is 0 if nothing was
	// injected, and for manifests that were never sent to an API server.
	Generation int64
	Reason     Reason
	// Message explains why nothing was injected.
	Message string
}

// Done reports whether the Pod has what the object adds.
func (o Outcome) Done() bool { return o.Reason == Injected || o.Reason == Present }

// entry is an outcome in the annotation.
type entry struct {
	id         string
	generation int64
	reason     Reason // empty if it was injected
	message    string
}

// entry does not distinguish Injected from Present: the annotation has to be the same when the
// Pod is reviewed again.
func (o Outcome) entry() entry {
	if o.Done() {
		return entry{id: o.String(), generation: o.Generation}
	}
	return entry{id: o.String(), reason: o.Reason, message: o.Message}
}

// InjectedInto returns the objects that were injected into a Pod with these annotations, and
// the generation of each. A value that cannot be read is ignored.
func InjectedInto(annotations map[string]string) map[Object]int64 {
	injected := make(map[Object]int64)
	for _, e := range readStatus(annotations[StatusAnnotation]) {
		if i := strings.LastIndexByte(e.id, '/'); e.reason == "" && i >= 0 {
			injected[Object{Kind: schema.ParseGroupKind(e.id[:i]), Name: e.id[i+1:]}] = e.generation
		}
	}
	return injected
}

// readStatus reads the annotation, sorted by object.
func readStatus(text string) []entry {
	var read map[string]struct {
		Generation int64
		Reason     Reason
		Message    string
	}
	if text == "" || json.Unmarshal([]byte(text), &read) != nil {
		return nil // someone else wrote it
	}
	var entries []entry
	for id, e := range read {
		entries = append(entries, entry{id, e.Generation, e.Reason, e.Message})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.id, b.id) })
	return entries
}

// statusText returns the annotation for sorted entries.
func statusText(entries []entry) []byte {
	text := make([]byte, 0, 64*len(entries))
	for i, e := range entries {
		text = append(text, "{,"[min(i, 1)])
		text = append(jsontext.AppendQuoted(text, e.id), ':')
		if e.reason == "" {
			text = append(strconv.AppendInt(append(text, `{"generation":`...), e.generation, 10), '}')
			continue
		}
		text = jsontext.AppendQuoted(append(text, `{"reason":`...), string(e.reason))
		text = append(jsontext.AppendQuoted(append(text, `,"message":`...), e.message), '}')
	}
	return append(text, '}')
}
