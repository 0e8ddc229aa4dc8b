package history

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// rollouts follow the members of sets.
type rollouts struct {
	*history
	// created is the last member of an ordered set that an operator has created, and deleted how many ready ones of another set it has deleted at
	// a time.
	created map[string]apiserver.Change
	deleted map[string]int
}

// hurried reports a member of a set that an operator creates or deletes too early: of an ordered set, while another one cannot be ready yet; of
// others, with more ready members at once than may be missing.
func (r rollouts) hurried(c apiserver.Change, all map[string]*unstructured.Unstructured) string {
	member := c.Object()
	if !isByOperator(c) || isCopy(member) {
		return ""
	}
	isDeleted := c.Before != nil && c.Before.GetDeletionTimestamp() == nil && (c.After == nil || c.After.GetDeletionTimestamp() != nil)
	for _, k := range r.Kinds {
		of, isSet := k.Sets[childName(member)]
		if !isSet || k.Target != nil || of.Type != member.GroupVersionKind() {
			continue
		}
		set := fmt.Sprint(c.By, " ", member.GetLabels()[labelOwner], " ", childName(member))
		switch {
		case of.Ordered && c.Before == nil:
			former := r.created[set]
			r.created[set] = c
			if former.At.Equal(c.At) && numberOf(former.After) < numberOf(c.After) {
				return "two members of an ordered set are created at once: " + c.String()
			}
		case !of.Ordered && isDeleted && isTrue(c.Before, string(corev1.PodReady)):
			set += c.At.String()
			most := r.mayBeMissing(k, c.Before, r.deleted[set], all)
			if r.deleted[set]++; most >= 0 && r.deleted[set] > most {
				return fmt.Sprintf("more than %d members of a set are deleted at once: %s", most, c)
			}
		}
	}
	return ""
}

// mayBeMissing returns how many ready members of the set of an object may be deleted at once, of which some are deleted; -1 if that is not known.
// all is what existed before.
func (r rollouts) mayBeMissing(k *kind.Kind, member *unstructured.Unstructured, deleted int, all map[string]*unstructured.Unstructured) int {
	for _, owner := range all {
		if string(owner.GetUID()) != member.GetLabels()[labelOwner] || owner.GroupVersionKind() != k.GroupVersionKind || owner.GetDeletionTimestamp() != nil {
			continue
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
