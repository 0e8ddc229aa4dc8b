package history

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// rollouts follow the members of sets.
type rollouts struct {
	*history
	// wasReady are the members of ordered sets that were ready once, and deleted is how many ready ones of another set
	// an operator has deleted at a time.
	wasReady sets.Set[types.UID]
	deleted  map[string]int
	// late are the sets and times at which a deletion arrived late, after which the operator sent others.
	late sets.Set[string]
}

// hurried reports a member of a set that an operator creates or deletes too early: of an ordered set, while another one
// cannot be ready yet; of others, with more ready members at once than may be missing.
func (r rollouts) hurried(c apiserver.Change, all map[string]*unstructured.Unstructured) string {
	member := c.Object()
	if c.After != nil && isTrue(c.After, string(corev1.PodReady)) {
		r.wasReady.Insert(c.After.GetUID())
	}
	if !isByOperator(c) || isCopy(member) {
		return ""
	}
	isDeleted := c.Before != nil && c.Before.GetDeletionTimestamp() == nil &&
		(c.After == nil || c.After.GetDeletionTimestamp() != nil)
	for _, k := range r.Kinds {
		of, isSet := k.Sets[childName(member)]
		if !isSet || k.Target != nil || of.Type != member.GroupVersionKind() {
			continue
		}
		set := fmt.Sprint(c.By, " ", member.GetLabels()[labelOwner], " ", childName(member))
		switch {
		case of.Ordered && c.Before == nil:
			before := all[idBefore(member)]
			isMember := before != nil && before.GetLabels()[labelOwner] == member.GetLabels()[labelOwner] &&
				before.GetKind() == "Pod"
			if isMember && !r.wasReady.Has(before.GetUID()) {
				return "a member of an ordered set is created before the one before it was ready: " + c.String()
			}
		case !of.Ordered && isDeleted && isTrue(c.Before, string(corev1.PodReady)):
			set += c.At.String()
			if r.deletedLate.Has(member.GetUID()) {
				r.late.Insert(set)
			}
			if r.late.Has(set) {
				continue
			}
			most := r.mayBeMissing(k, c, r.deleted[set], all)
			if r.deleted[set]++; most >= 0 && r.deleted[set] > most {
				return fmt.Sprintf("more than %d members of a set are deleted at once: %s", most, c)
			}
		}
	}
	return ""
}

// idBefore returns that of the member of an ordered set which comes before another one.
func idBefore(member *unstructured.Unstructured) string {
	number := numberOf(member)
	return strings.TrimSuffix(idOf(member), strconv.Itoa(number)) + strconv.Itoa(number-1)
}

// mayBeMissing returns how many ready members of the set of an object may be deleted at once, of which some are
// deleted; -1 if that is not known, as shortly after the owner was edited. all is what existed before.
func (r rollouts) mayBeMissing(
	k *kind.Kind, c apiserver.Change, deleted int, all map[string]*unstructured.Unstructured,
) int {
	member := c.Before
	for _, owner := range all {
		if string(owner.GetUID()) != member.GetLabels()[labelOwner] || owner.GroupVersionKind() != k.GroupVersionKind ||
			owner.GetDeletionTimestamp() != nil {
			continue
		}
		if c.At.Sub(r.edited[owner.GetUID()]) < (observer{r.history}).unheard() {
			return -1
		}
		members := r.childrenOf(k, owner, all)
		observed, err := r.observed(k, owner, members, all)
		if err != nil {
			return -1
		}
		d, err := k.Decide(k.NewBudget(), owner.Object, observed)
		if err != nil {
			return -1
		}
		for _, child := range d.Children {
			if child.Name == childName(member) && child.Set != nil {
				return child.Set.MaxUnavailable + max(0, len(members[child.Name])+deleted-child.Set.Replicas)
			}
		}
	}
	return -1
}
