package inject

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/fescue-dev/fescue/internal/jsontext"
)

// merger collects what has to be added to a Pod so that it has all of an injection.
type merger struct {
	path  []byte // the current place, as a JSON pointer
	patch []byte // operations, each followed by a comma
	edits []edit
	token []byte // the mount of the Pod's token; nil if it has none
}

// rejection explains why an injection does not fit a Pod. It names no values, which may be secret,
// and no indices, which may differ when the Pod is reviewed again.
type rejection struct {
	reason Reason
	detail string
	path   []string // from the inside out
}

func conflict(detail string) *rejection { return &rejection{reason: Conflict, detail: detail} }

// in adds a step to the path of a rejection.
func (r *rejection) in(step string) *rejection {
	r.path = append(r.path, step)
	return r
}

func (r *rejection) message() string {
	var b strings.Builder
	for _, step := range slices.Backward(r.path) {
		if b.Len() > 0 && step[0] != '[' {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	return b.String() + r.detail
}

// merge adds to have what want has and have does not.
func (m *merger) merge(have, want value, s *shape) *rejection {
	switch {
	case s.isStruct():
		return m.fields(have, want, s)
	case s.isList():
		return m.list(have, want, s)
	case contains(have, want, s):
		return nil
	}
	return conflict("already exists with other content")
}

// fields merges structs. It stops at the first conflict: nothing is injected then, and the same
// conflict must be reported when the Pod is reviewed again.
func (m *merger) fields(have, want value, s *shape) *rejection {
	if !have.Is('{') {
		return conflict("is not an object")
	}
	for name, w := range want.Members {
		if !w.IsSet() {
			continue
		}
		depth := len(m.path)
		field := s.field(string(name.Content()))
		m.push(string(name.Content()))
		h, r := have.MemberNamed(name), (*rejection)(nil)
		if h.IsSet() {
			r = m.merge(h, w, field)
		} else {
			r = m.absent(have, h, name, w, field)
		}
		m.path = m.path[:depth]
		if r != nil {
			return r.in(name.String())
		}
	}
	return nil
}

// absent adds a member that an object does not have, or has as null.
func (m *merger) absent(object, null, name, want value, s *shape) *rejection {
	for _, item := range want.Items {
		if s.containers && isPartial(item) {
			return missing(item, s)
		}
	}
	text := want.Raw()
	if s.isList() && want.Is('[') {
		text = m.wholeList(want, s)
	}
	m.put(object, null, name.Raw(), text)
	return nil
}

// put adds a member to an object at the current path. old is the value that it replaces: a null,
// or Fescue's own annotation; the zero value if there is none.
func (m *merger) put(object, old value, name, text []byte) {
	if old.Exists() {
		m.add(edit{at: old.Start(), cut: old.End() - old.Start(), text: text})
		return
	}
	m.add(edit{at: object.End() - 1, text: text, name: name, alone: object.IsEmpty()})
}

// list merges the items of lists.
func (m *merger) list(have, want value, s *shape) *rejection {
	if !have.Is('[') {
		return conflict("is not a list")
	}
	for _, w := range want.Items {
		i, h := find(have, w, s)
		switch {
		case i < 0 && s.containers && isPartial(w):
			return missing(w, s)
		case i < 0:
		case s.containers && isPartial(w):
			depth := len(m.path)
			m.push(strconv.Itoa(i))
			r := m.fields(h, w, s.item)
			m.path = m.path[:depth]
			if r != nil {
				return r.in("[" + keyOf(w, s) + "]")
			}
		case !contains(h, w, s.item):
			return conflict("already exists with other content").in("[" + keyOf(w, s) + "]")
		}
	}
	// An insertion moves the items behind it, so it comes after all edits with an index, and
	// before those at the end.
	if s.sidecarsFirst {
		m.insertSidecars(have, want, s)
	}
	for _, w := range want.Items {
		if s.sidecarsFirst && isSidecar(w) {
			continue
		}
		if i, _ := find(have, w, s); i < 0 {
			m.append(have, w, s)
		}
	}
	return nil
}

// insertSidecars adds native sidecars before the first ordinary init container, which can
// then use them, and after the sidecars that are already in front.
func (m *merger) insertSidecars(have, want value, s *shape) {
	at, before := 0, value{}
	for i, h := range have.Items {
		if !isSidecar(h) {
			at, before = i, h
			break
		}
	}
	for _, w := range want.Items {
		if i, _ := find(have, w, s); i >= 0 || !isSidecar(w) {
			continue
		}
		if !before.Exists() {
			m.append(have, w, s)
			continue
		}
		depth := len(m.path)
		m.push(strconv.Itoa(at))
		m.add(edit{at: before.Start(), text: m.text(w, s), before: true})
		m.path = m.path[:depth]
		at++
	}
}

// append adds an item at the end of a list.
func (m *merger) append(list, item value, s *shape) {
	depth := len(m.path)
	m.push("-")
	m.add(edit{at: list.End() - 1, text: m.text(item, s), alone: list.IsEmpty()})
	m.path = m.path[:depth]
}

// push adds a step to the path: RFC 6901 writes ~ as ~0 and / as ~1.
func (m *merger) push(step string) {
	m.path = append(m.path, '/')
	for i := range len(step) {
		switch c := step[i]; c {
		case '~':
			m.path = append(m.path, "~0"...)
		case '/':
			m.path = append(m.path, "~1"...)
		default:
			m.path = append(m.path, c)
		}
	}
}

// add records an addition at the current path.
func (m *merger) add(e edit) {
	m.edits = append(m.edits, e)
	m.patch = append(m.patch, `{"op":"add","path":`...)
	m.patch = jsontext.AppendQuoted(m.patch, m.path)
	m.patch = append(m.patch, `,"value":`...)
	m.patch = append(m.patch, e.text...)
	m.patch = append(m.patch, "},"...)
}

// missing rejects a partial container that the Pod does not have.
func missing(want value, s *shape) *rejection {
	return (&rejection{reason: Incomplete, detail: "the Pod has no such container, and the injected one has no image"}).in("[" + keyOf(want, s) + "]")
}

// isPartial reports whether a container is an addition to one of the Pod's.
func isPartial(container value) bool { return !container.Member("image").IsSet() }

// isSidecar reports whether an init container keeps running.
func isSidecar(container value) bool { return container.Member("restartPolicy").Equals("Always") }

// find returns the item of a list that want is merged with; i is -1 if there is none.
func find(list, want value, s *shape) (i int, found value) {
	for i, item := range list.Items {
		if s.set && contains(item, want, whole) || s.keys != nil && sameKeys(item, want, s.keys) {
			return i, item
		}
	}
	return -1, value{}
}

// sameKeys reports whether two items of a list are the same by their keys. A key that neither
// has does not distinguish them.
func sameKeys(a, b value, keys []string) bool {
	for _, key := range keys {
		x, y := a.Member(key), b.Member(key)
		switch {
		case x.IsSet() && y.IsSet():
			if !jsontext.Same(x, y) {
				return false
			}
		case x.IsSet():
			if !x.Equals(defaultOf(key)) {
				return false
			}
		case y.IsSet():
			if !y.Equals(defaultOf(key)) {
				return false
			}
		}
	}
	return true
}

// keyOf returns the name of an item for messages.
func keyOf(item value, s *shape) string {
	var parts []string
	for _, key := range s.keys {
		if part := item.Member(key); part.IsSet() {
			parts = append(parts, string(bytes.Trim(part.Raw(), `"`)))
		}
	}
	return strings.Join(parts, ",")
}

// contains reports whether have has everything that want has.
func contains(have, want value, s *shape) bool {
	switch {
	case bytes.Equal(have.Raw(), want.Raw()):
		return true
	case want.Is('{'):
		if !have.Is('{') {
			return false
		}
		for name, w := range want.Members {
			h := have.MemberNamed(name)
			if !h.IsSet() && !leftOut(w) || h.IsSet() && !contains(h, w, s.field(string(name.Content()))) {
				return false
			}
		}
		return true
	case want.Is('['):
		return have.Is('[') && containsItems(have, want, s)
	case have.Is('{'), have.Is('['):
		return false
	}
	return jsontext.Same(have, want)
}

// containsItems compares lists. Those without keys, such as a command, are compared as a whole,
// though defaults may have been added to their items.
func containsItems(have, want value, s *shape) bool {
	if !s.isList() {
		n := 0
		for i, w := range want.Items {
			if h := have.Item(i); !h.Exists() || !contains(h, w, s) {
				return false
			}
			n++
		}
		return n == have.Len()
	}
	for _, w := range want.Items {
		if i, h := find(have, w, s); i < 0 || !contains(h, w, s.item) {
			return false
		}
	}
	return true
}

// leftOut reports whether Kubernetes omits a value when it encodes an object, so that it is gone
// when the Pod is reviewed again.
func leftOut(v value) bool {
	return !v.IsSet() || v.Is('[') && v.IsEmpty() || v.Is('"') && v.End()-v.Start() == len(`""`)
}
