package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
)

const (
	// allowedTTL is how long a right is believed in after it was asked for, deniedTTL how
	// long its lack: who has just been granted it does not want to wait.
	allowedTTL = 10 * time.Second
	deniedTTL  = time.Second
	// maxRights bounds what is remembered: a few MB.
	maxRights = 10_000
)

// systemUsers do not choose what they write: they remove finalizers and owner references
// of objects that others have made.
var systemUsers = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:namespace-controller",
	"system:kube-controller-manager",
}

// autoscaler scales for those who may make a HorizontalPodAutoscaler. As with Kubernetes' own
// workloads, it is not asked on the scale subresource whether it may make Pods.
const autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"

// SubjectAccessReviewer asks the API server for the rights of others; client-go's
// SubjectAccessReviewInterface is one.
type SubjectAccessReviewer interface {
	Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Rights knows what authors of objects have to be allowed to do. Fescue makes the
// children of an object with its own rights, so that without it a user could have made
// what they may not make.
type Rights struct {
	reviewer  SubjectAccessReviewer
	mapper    meta.RESTMapper
	exempt    sets.Set[string]
	needs     map[schema.GroupKind][]need
	resources sync.Map // of schema.GroupKind to schema.GroupResource, as far as they are known
	answers   *cache.LRUExpireCache
}

// right is what someone may do to a resource.
type right struct {
	verb     string
	resource schema.GroupResource
}

// need is what the author of an object has to be allowed to do to objects of a type. through
// is the kind that it is needed for, if that is another kind than the author's object is of.
type need struct {
	verb    string
	of      schema.GroupVersionKind
	through string
}

// NewRights finds what kinds do: they create their children, those that children make which
// are of kinds themselves, and Pods if they inject; and delete what has the labels of a set that
// ends strays. The mapper says where types are served. exempt are users that are not asked,
// Fescue's own above all.
func NewRights(reviewer SubjectAccessReviewer, mapper meta.RESTMapper, kinds []*kind.Kind, injections Injections, exempt ...string) *Rights {
	r := &Rights{
		reviewer: reviewer,
		mapper:   mapper,
		exempt:   sets.New(exempt...).Insert(systemUsers...),
		needs:    make(map[schema.GroupKind][]need),
		answers:  cache.NewLRUExpireCache(maxRights),
	}
	byType := make(map[schema.GroupKind]*kind.Kind)
	for _, k := range kinds {
		gk := k.GroupVersionKind.GroupKind()
		byType[gk] = k
		r.resources.Store(gk, k.GroupVersionResource().GroupResource())
	}
	for gk, k := range byType {
		r.needs[gk] = needsOf(k, byType, injections)
	}
	return r
}

// needsOf lists what the author of an object of a kind needs, in a fixed order, which is that
// of the questions and of the refusals. Fescue makes children of our own kinds as itself, who is
// not asked, so that what these make is asked of who made the first.
func needsOf(first *kind.Kind, kinds map[schema.GroupKind]*kind.Kind, injections Injections) []need {
	found := make(map[string]need)
	seen := sets.New(first.GroupVersionKind.GroupKind())
	for makers := []*kind.Kind{first}; len(makers) > 0; makers = makers[1:] {
		maker := makers[0]
		through := ""
		if maker != first {
			through = maker.GroupVersionKind.Kind
		}
		add := func(verb string, of schema.GroupVersionKind) {
			key := of.GroupKind().String() + " " + verb
			if _, known := found[key]; !known {
				found[key] = need{verb, of, through}
			}
		}
		for _, owned := range maker.Owns {
			add("create", owned)
			if next := kinds[owned.GroupKind()]; next != nil && !seen.Has(owned.GroupKind()) {
				seen.Insert(owned.GroupKind())
				makers = append(makers, next)
			}
		}
		if _, injects := injections[maker.GroupVersionKind.GroupKind()]; injects {
			add("create", corev1.SchemeGroupVersion.WithKind("Pod"))
		}
		for _, set := range maker.Sets {
			if len(set.StrayLabels) > 0 { // the author chooses their values, and so what is deleted
				add("delete", set.Type)
			}
		}
	}
	needs := make([]need, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		needs = append(needs, found[key])
	}
	return needs
}

// resourceOf is where a type is served. What the mapper says once holds; as long as it does not
// know the type, whose CRD may be installed later, the name is guessed, as kubectl does.
func (r *Rights) resourceOf(gvk schema.GroupVersionKind) schema.GroupResource {
	if known, ok := r.resources.Load(gvk.GroupKind()); ok {
		return known.(schema.GroupResource)
	}
	mapping, err := r.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		guess, _ := meta.UnsafeGuessKindToResource(gvk)
		return guess.GroupResource()
	}
	resource := mapping.Resource.GroupResource()
	r.resources.Store(gvk.GroupKind(), resource)
	return resource
}

// check returns a Forbidden that names all rights that the author of a request lacks.
func (r *Rights) check(ctx context.Context, k *kind.Kind, request *admissionv1.AdmissionRequest) error {
	user := request.UserInfo.Username
	if r == nil || r.exempt.Has(user) || user == autoscaler && request.SubResource == scaleSubresource {
		return nil
	}
	gk := k.GroupVersionKind.GroupKind()
	var missing []string
	for _, n := range r.needs[gk] {
		do := right{n.verb, r.resourceOf(n.of)}
		ok, err := r.may(ctx, request.UserInfo, do, request.Namespace)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("ask for the rights of user %q: %w", user, err))
		}
		if !ok {
			missing = append(missing, describe(user, do, n.through, request.Namespace))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: gk.Group, Resource: k.Names.Plural}, request.Name,
		errors.New(strings.Join(missing, "; ")+", as the kind "+gk.Kind+" does for its author"))
}

// describe says that a right is missing, in the API server's words, and for which kind in
// between, if any.
func describe(user string, do right, through, namespace string) string {
	text := fmt.Sprintf("user %q cannot %s resource %q in API group %q", user, do.verb, do.resource.Resource, do.resource.Group)
	if namespace == "" {
		text += " at the cluster scope"
	} else {
		text += fmt.Sprintf(" in the namespace %q", namespace)
	}
	if through != "" {
		text += " (through the kind " + through + ")"
	}
	return text
}

// may asks the API server, or remembers what it said.
func (r *Rights) may(ctx context.Context, user authenticationv1.UserInfo, do right, namespace string) (bool, error) {
	key := rightKey(user, do, namespace)
	if answer, known := r.answers.Get(key); known {
		return answer.(bool), nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: do.verb, Group: do.resource.Group, Resource: do.resource.Resource, Namespace: namespace},
	}}
	for name, values := range user.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = make(map[string]authorizationv1.ExtraValue)
		}
		review.Spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	answer, err := r.reviewer.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	ttl := deniedTTL
	if answer.Status.Allowed {
		ttl = allowedTTL
	}
	r.answers.Add(key, answer.Status.Allowed, ttl)
	return answer.Status.Allowed, nil
}

// rightKey differs for all that a review may be decided by. Texts are quoted, so that
// none can pass for two.
func rightKey(user authenticationv1.UserInfo, do right, namespace string) string {
	key := make([]byte, 0, 256)
	add := func(texts ...string) {
		for _, text := range texts {
			key = strconv.AppendQuote(key, text)
		}
		key = append(key, '\n')
	}
	add(do.verb, do.resource.Group, do.resource.Resource, namespace, user.Username, user.UID)
	add(user.Groups...)
	names := make([]string, 0, len(user.Extra))
	for name := range user.Extra {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add(name)
		add(user.Extra[name]...)
	}
	return string(key)
}
