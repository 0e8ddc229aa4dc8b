package operator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
)

// checkRights returns an error that lists the rights that a kind needs and the operator does not
// have.
func (p *operator) checkRights(ctx context.Context, k *kind.Kind) error {
	needed, err := install.ForKind(k, p.resourceOf)
	if err != nil {
		return fmt.Errorf("discover the types of children: %w", err)
	}
	namespaces := p.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var denied []string
	for _, right := range needed {
		for _, namespace := range namespaces {
			allowed, err := p.rights.allow(ctx, right, namespace)
			if err != nil {
				return fmt.Errorf("review the operator's rights: %w", err)
			}
			if !allowed {
				denied = append(denied, right.In(namespace))
			}
		}
	}
	if len(denied) > 0 {
		return engine.Absent(
			fmt.Sprintf(
				"missing rights: %s; bind the roles that 'fescue manifests' prints to the user or service account that Fescue runs as", strings.Join(denied, ", ")),
		)
	}
	return nil
}

// rights reviews the rights of the operator. One request returns the rules for a namespace, which
// usually show all rights of all kinds; what they do not show is asked for one by one.
type rights struct {
	client authorizationclient.AuthorizationV1Interface

	mu       sync.Mutex
	reviewed map[string]rules // by namespace
}

// rules are those that were in force at a time.
type rules struct {
	at    time.Time
	rules []rbacv1.PolicyRule
}

// rulesAge is how long rules are used: the kinds start together. It is below the least wait before
// the rights of a kind are reviewed again.
const rulesAge = time.Second

// noNamespace has the rules that hold in all namespaces and no others: as it is not a DNS label, no
// namespace can have that name, and no role can be bound in it.
const noNamespace = "all.namespaces"

// allow reports whether the operator has a right in a namespace, or in all if that is empty.
func (r *rights) allow(ctx context.Context, right install.Right, namespace string) (bool, error) {
	if r.isShown(ctx, right, namespace) {
		return true, nil
	}
	attributes := attributesOf(right, namespace)
	asked := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
	}
	review, err := r.client.SelfSubjectAccessReviews().Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// isShown reports whether the rules for a namespace show a right.
func (r *rights) isShown(ctx context.Context, right install.Right, namespace string) bool {
	if namespace == metav1.NamespaceAll {
		namespace = noNamespace
	}
	needed := rbacv1.PolicyRule{Verbs: []string{right.Verb}, APIGroups: []string{right.Group},
		Resources: []string{right.Resource}}
	if right.Name != "" {
		needed.ResourceNames = []string{right.Name}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.reviewed[namespace]
	if !ok || time.Since(known.at) > rulesAge {
		if r.reviewed == nil {
			r.reviewed = make(map[string]rules)
		}
		known = rules{rules: r.read(ctx, namespace), at: time.Now()}
		r.reviewed[namespace] = known
	}
	shown, _ := validation.Covers(known.rules, []rbacv1.PolicyRule{needed})
	return shown
}

// read returns the rules for a namespace. There are none if the API server does not know all of
// them: an authorizer that it cannot ask for its rules may deny what another allows.
func (r *rights) read(ctx context.Context, namespace string) []rbacv1.PolicyRule {
	review, err := r.client.SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}},
		metav1.CreateOptions{})
	if err != nil || review.Status.Incomplete {
		return nil
	}
	shown := make([]rbacv1.PolicyRule, len(review.Status.ResourceRules))
	for i, rule := range review.Status.ResourceRules {
		shown[i] = rbacv1.PolicyRule{Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources,
			ResourceNames: rule.ResourceNames}
	}
	return shown
}

// attributesOf returns a right in a namespace, in the form of an access review.
func attributesOf(right install.Right, namespace string) authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(right.Resource, "/")
	return authorizationv1.ResourceAttributes{
		Group: right.Group, Resource: resource, Subresource: subresource, Verb: right.Verb, Name: right.Name,
		Namespace: namespace,
	}
}
