package inject

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/jsontext"
)

// StatusAnnotation says on a Pod what was injected into it, and why not. Its value is
// JSON: {"Kind.group/name": {"generation": 3}, …}, or {"reason": …, "message": …}.
const StatusAnnotation = "fescue.dev/injected"

// Reason says in a word what became of an injection.
type Reason string

const (
	// Injected means: the patch adds it.
	Injected Reason = "Injected"
	// Present means: the Pod has it already.
	Present Reason = "Present"
	// NotFound means: the Pod names an object that its namespace does not have.
	NotFound Reason = "NotFound"
	// Unavailable means: the kind is not run, so that its objects are not known.
	Unavailable Reason = "Unavailable"
	// Conflict means: the Pod says something else already.
	Conflict Reason = "Conflict"
	// Incomplete means: the Pod lacks something that the injection builds on.
	Incomplete Reason = "Incomplete"
	// PodSecurity means: the API server would refuse the Pod, by the level of its namespace.
	PodSecurity Reason = "PodSecurity"
	// TooLarge means: the annotations of the Pod would be larger than all together may be.
	TooLarge Reason = "TooLarge"
	// MirrorPod means: the Pod stands for a static one, which a kubelet runs from its own files.
	MirrorPod Reason = "MirrorPod"
	// ExcludedNamespace means: nothing is injected into Pods that the cluster needs to run.
	ExcludedNamespace Reason = "ExcludedNamespace"
)

// SkipReasons are those for which nothing is added to a Pod.
var SkipReasons = []Reason{Present, NotFound, Unavailable, Conflict, Incomplete, PodSecurity, TooLarge, MirrorPod, ExcludedNamespace}

// Outcome is what became of one injection.
type Outcome struct {
	Object
	// Generation is that of the object that the Pod has or gets the parts of; it is 0 if
	// nothing was injected, and for manifests that no API server has seen.
	Generation int64
	Reason     Reason
	// Message says more where nothing was injected.
	Message string
}

// Done tells whether the Pod has what the object adds.
func (o Outcome) Done() bool { return o.Reason == Injected || o.Reason == Present }

// entry is an outcome as the annotation has it.
type entry struct {
	id         string
	generation int64
	reason     Reason // empty if it was injected
	message    string
}

// entry leaves out whether a Pod had what it has before: the annotation has to be the same
// when it comes again.
func (o Outcome) entry() entry {
	if o.Done() {
		return entry{id: o.String(), generation: o.Generation}
	}
	return entry{id: o.String(), reason: o.Reason, message: o.Message}
}

// InjectedInto reads from the annotations of a Pod which objects were injected into it,
// and from which generation of each. A value that cannot be read says nothing.
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
		return nil // whoever wrote that, it is not ours
	}
	var entries []entry
	for id, e := range read {
		entries = append(entries, entry{id, e.Generation, e.Reason, e.Message})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.id, b.id) })
	return entries
}

// statusText is the annotation for entries that are sorted.
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
