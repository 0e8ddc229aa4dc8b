package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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
	exempt    sets.Set[string]
	resources map[schema.GroupKind][]schema.GroupResource
	answers   *cache.LRUExpireCache
}

// NewRights finds the resources that kinds make: their children and, for those in
// injections, Pods. exempt are users that are not asked, Fescue's own above all. Of a type
// that the mapper does not know the resource is guessed, as kubectl does.
func NewRights(reviewer SubjectAccessReviewer, mapper meta.RESTMapper, kinds []*kind.Kind, injections Injections, exempt ...string) *Rights {
	r := &Rights{
		reviewer:  reviewer,
		exempt:    sets.New(exempt...).Insert(systemUsers...),
		resources: make(map[schema.GroupKind][]schema.GroupResource),
		answers:   cache.NewLRUExpireCache(maxRights),
	}
	for _, k := range kinds {
		gk := k.GroupVersionKind.GroupKind()
		makes := sets.New[schema.GroupResource]()
		for _, owned := range k.Owns {
			resource, _ := meta.UnsafeGuessKindToResource(owned)
			if mapping, err := mapper.RESTMapping(owned.GroupKind(), owned.Version); err == nil {
				resource = mapping.Resource
			}
			makes.Insert(resource.GroupResource())
		}
		if _, injects := injections[gk]; injects {
			makes.Insert(schema.GroupResource{Resource: "pods"})
		}
		r.resources[gk] = slices.SortedFunc(maps.Keys(makes), compareResources)
	}
	return r
}

// compareResources gives the questions, and so the refusals, a fixed order.
func compareResources(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }

// check returns a Forbidden that names all rights that the author of a request lacks.
func (r *Rights) check(ctx context.Context, k *kind.Kind, request *admissionv1.AdmissionRequest) error {
	if r == nil || r.exempt.Has(request.UserInfo.Username) {
		return nil
	}
	gk := k.GroupVersionKind.GroupKind()
	var missing []string
	for _, resource := range r.resources[gk] {
		ok, err := r.mayCreate(ctx, request.UserInfo, resource, request.Namespace)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("ask for the rights of user %q: %w", request.UserInfo.Username, err))
		}
		if !ok {
			missing = append(missing, describe(request.UserInfo.Username, resource, request.Namespace))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: gk.Group, Resource: k.Names.Plural}, request.Name,
		errors.New(strings.Join(missing, "; ")+", as the kind "+gk.Kind+" does for its author"))
}

// describe says that a right is missing, in the API server's words.
func describe(user string, resource schema.GroupResource, namespace string) string {
	text := fmt.Sprintf("user %q cannot create resource %q in API group %q", user, resource.Resource, resource.Group)
	if namespace == "" {
		return text + " at the cluster scope"
	}
	return text + fmt.Sprintf(" in the namespace %q", namespace)
}

// mayCreate asks the API server, or remembers what it said.
func (r *Rights) mayCreate(ctx context.Context, user authenticationv1.UserInfo, resource schema.GroupResource, namespace string) (bool, error) {
	key := rightKey(user, resource, namespace)
	if answer, known := r.answers.Get(key); known {
		return answer.(bool), nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Group: resource.Group, Resource: resource.Resource, Namespace: namespace},
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
func rightKey(user authenticationv1.UserInfo, resource schema.GroupResource, namespace string) string {
	key := make([]byte, 0, 256)
	add := func(texts ...string) {
		for _, text := range texts {
			key = strconv.AppendQuote(key, text)
		}
		key = append(key, '\n')
	}
	add(resource.Group, resource.Resource, namespace, user.Username, user.UID)
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
