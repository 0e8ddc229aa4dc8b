package engine

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// numbers remembers the highest numbers in the names of set members, for plan.View.Numbers. A new
// process knows those of the members that exist.
type numbers struct {
	mu       sync.Mutex
	byObject map[cache.ObjectName]numbered
}

type numbered struct {
	uid   types.UID
	bySet []setNumber // most kinds have one set, for which a map would take five times the memory
}

type setNumber struct {
	set     string
	highest int
}

func newNumbers() *numbers { return &numbers{byObject: make(map[cache.ObjectName]numbered)} }

// of returns the numbers for an object, by set.
func (n *numbers) of(object *unstructured.Unstructured) map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	bySet := make(map[string]int)
	if known := n.byObject[cache.MetaObjectToName(object)]; known.uid == object.GetUID() {
		for _, number := range known.bySet {
			bySet[number.set] = number.highest
		}
	}
	return bySet
}

// remember keeps numbers in addition to those of other sets.
func (n *numbers) remember(object *unstructured.Unstructured, highest map[string]int) {
	if len(highest) == 0 {
		return
	}
	all := n.of(object)
	maps.Copy(all, highest)
	bySet := make([]setNumber, 0, len(all))
	for set, number := range all {
		bySet = append(bySet, setNumber{set, number})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byObject[cache.MetaObjectToName(object)] = numbered{object.GetUID(), bySet}
}

// forget drops what is known of an object that is gone.
func (n *numbers) forget(name cache.ObjectName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byObject, name)
}
