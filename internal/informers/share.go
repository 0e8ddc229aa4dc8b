package informers

import (
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"math/bits"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fescue-dev/fescue/internal/jsontext"
)

// Share is one of equal parts into which objects are divided by a hash of a UID, so that several
// processes need not cache the same. The zero value is all objects.
type Share struct {
	// Shard is one of 0 to Count-1.
	Shard, Count int
	// OwnerLabel divides objects by the UID of their owner instead of their own: the UID in their
	// controller reference, and the one in this label. An object without a controller is part of every
	// share, since its label may name an owner that no longer exists.
	OwnerLabel string
}

// ShardOf returns the shard, of count, to which a UID belongs. Each shard is a range of the UID's
// 64-bit FNV-1a hash, as the API server selects them (metav1.ListOptions.ShardSelector).
func ShardOf(uid types.UID, count int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // a hash takes every write
	shard, _ := bits.Mul64(h.Sum64(), uint64(count))
	return int(shard)
}

// selector returns the shard selector with which the API server sends this share alone; it is empty
// if it cannot. An API server that does not know shard selectors, or does not have its feature gate
// ShardedListAndWatch, ignores it and sends all objects.
func (s Share) selector() string {
	if s.Count == 0 || s.OwnerLabel != "" {
		return ""
	}
	end := "0x10000000000000000"
	if s.Shard+1 < s.Count {
		end = fmt.Sprintf("0x%016x", s.start(s.Shard+1))
	}
	return fmt.Sprintf("shardRange(object.metadata.uid, '0x%016x', '%s')", s.start(s.Shard), end)
}

// start returns the least hash of a shard.
func (s Share) start(shard int) uint64 {
	least, rest := bits.Div64(uint64(shard), 0, uint64(s.Count))
	if rest > 0 {
		least++
	}
	return least
}

// has reports whether an object is part of the share.
func (s Share) has(object jsontext.Value) bool {
	metadata := object.Member("metadata")
	switch {
	case s.Count == 0:
		return true
	case s.OwnerLabel == "":
		return s.isOf(metadata.Member("uid"))
	case s.isOf(metadata.Member("labels").Member(s.OwnerLabel)):
		return true
	}
	for _, reference := range metadata.Member("ownerReferences").Items {
		if reference.Member("controller").Is('t') {
			return s.isOf(reference.Member("uid"))
		}
	}
	return true
}

func (s Share) isOf(uid jsontext.Value) bool {
	return uid.Is('"') && ShardOf(types.UID(uid.String()), s.Count) == s.Shard
}

// filter passes the objects of a share from the lists and watches of one informer.
type filter struct {
	share Share

	mu     sync.Mutex
	seed   maphash.Seed
	passed map[uint64]bool // hashes of the UIDs of the objects that were passed and not deleted since
}

func newFilter(share Share) *filter {
	return &filter{share: share, seed: maphash.MakeSeed(), passed: make(map[uint64]bool)}
}

// begin forgets what was passed: all objects follow.
func (f *filter) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed = make(map[uint64]bool)
}

// passes reports whether a listed object is part of the share.
func (f *filter) passes(object jsontext.Value) bool {
	passes, _ := f.event(watch.Added, object)
	return passes
}

// event reports whether an event is for someone who sees only the share, and whether the object leaves the share with
// it, as one that another owner has taken: then it is deleted for them.
func (f *filter) event(verb watch.EventType, object jsontext.Value) (passes, leaves bool) {
	has := f.share.has(object)
	if f.share.OwnerLabel == "" || verb == watch.Bookmark { // an object keeps its own UID
		return has || verb == watch.Bookmark, false
	}
	uid := maphash.Bytes(f.seed, object.Member("metadata").Member("uid").Raw())
	f.mu.Lock()
	defer f.mu.Unlock()
	if has && verb != watch.Deleted {
		f.passed[uid] = true
		return true, false
	}
	had := f.passed[uid]
	delete(f.passed, uid)
	return has || had, had && verb != watch.Deleted
}
