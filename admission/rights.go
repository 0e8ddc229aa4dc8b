package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
)

const (
	// Approvals are cached for allowedTTL. Denials are cached for deniedTTL only, so that a right
	// takes effect soon after it is granted.
	allowedTTL = 10 * time.Second
	deniedTTL  = time.Second
	// maxRights bounds the cache to a few MB.
	maxRights = 10_000
)

// systemUsers do not choose what they write: they remove finalizers and owner references
// from objects that others have created.
var systemUsers = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:namespace-controller",
	"system:kube-controller-manager",
}

// autoscaler scales for anyone who may create a HorizontalPodAutoscaler. On the scale subresource
// it does not need the right to create Pods, as for Kubernetes' own workloads.
const autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"

// SubjectAccessReviewer asks the API server about the rights of a user. client-go's
// SubjectAccessReviewInterface implements it.
type SubjectAccessReviewer interface {
	Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (
		*authorizationv1.SubjectAccessReview, error)
}

// Rights checks what the author of an object has to be allowed to do. Fescue creates the
// children of an object with its own rights, so without this check users could have it create
// what they may not create themselves.
type Rights struct {
	reviewer  SubjectAccessReviewer
	mapper    meta.RESTMapper
	exempt    sets.Set[string]
	needs     map[schema.GroupKind][]need
	resources sync.Map // from schema.GroupKind to served, as far as they are known
	answers   *cache.LRUExpireCache
}

// right is what someone may do to a resource in a namespace, or at the cluster scope if that is empty. It
// is about one object if it has a name.
type right struct {
	verb            string
	resource        schema.GroupResource
	namespace, name string
}

// served is where a type is served.
type served struct {
	resource     schema.GroupResource
	isNamespaced bool
}

// need is what the author of an object has to be allowed to do to objects of a type in the namespace of
// the object, in another one, or in all. through is the kind that needs it, if that is not the kind of the
// author's object.
type need struct {
	verb    string
	of      schema.GroupVersionKind
	through string
	// child is the type of the children of the object in whose namespaces it is needed.
	child schema.GroupKind
	// name is that of the only object that is concerned; it is empty for all.
	name string
	// grants means that it is to give away rights in the namespace of a child, also those of a ClusterRole.
	grants bool
	// in is a namespace, which may be empty for all; nil is that of the object, or of its children.
	in *string
}

// NewRights collects what each kind does: it creates its children, the children of children that are of a kind
// themselves, and Pods if it injects; it gives away rights by RoleBindings and roles; it reads what those children
// read; and it deletes objects with the labels of a set with strays: "Delete". The mapper finds where types are served.
// The exempt users are not checked, above all Fescue's own.
func NewRights(reviewer SubjectAccessReviewer, mapper meta.RESTMapper, kinds []*kind.Kind, exempt ...string) *Rights {
	r := &Rights{
		reviewer: reviewer,
		mapper:   mapper,
		exempt:   sets.New(exempt...).Insert(systemUsers...),
		needs:    make(map[schema.GroupKind][]need),
		answers:  cache.NewLRUExpireCache(maxRights),
	}
	catalog := kind.NewCatalog(kinds...)
	for _, k := range kinds {
		gk := k.GroupVersionKind.GroupKind()
		r.resources.Store(gk,
			served{k.GroupVersionResource().GroupResource(), k.Scope == apiextensionsv1.NamespaceScoped})
		r.needs[gk] = needsOf(k, catalog)
	}
	return r
}

// owner is a kind whose objects are, or may become, part of what an object of the first kind causes.
type owner struct {
	kind *kind.Kind
	// child is the type of the child of the first object through which it is owned; it is empty for that object.
	child schema.GroupKind
	// isVouchedFor means that a self-service kind on the way says what is in the objects.
	isVouchedFor bool
}

// isFirst reports whether an owner is the object itself, of which admission knows where it has children.
func (o owner) isFirst() bool { return o.child.Empty() }

// owned returns a kind whose objects an owner has as children.
func (o owner) owned(k *kind.Kind) owner {
	next := owner{k, o.child, o.isVouchedFor || o.kind.IsSelfService}
	if o.isFirst() {
		next.child = k.GroupVersionKind.GroupKind()
	}
	return next
}

// isFree reports whether nobody needs rights to children of a type: the engine keeps those of a self-service kind where
// nobody else has anything. What a self-service kind causes to be created by another one is free in the same namespace.
func (o owner) isFree(owned schema.GroupVersionKind) bool {
	isInPlace := slices.Contains(o.kind.OwnsOfCluster, owned) ||
		o.kind.Scope == apiextensionsv1.NamespaceScoped && !slices.Contains(o.kind.Elsewhere, owned)
	return o.kind.IsSelfService || o.isVouchedFor && isInPlace
}

// needsOf lists what the author of an object of a kind needs, in a fixed order: that of the
// requests and of the error message. Fescue creates children as an exempt user, so the author of
// the first object also needs the rights for what children of Fescue's kinds create, of its own kind too.
func needsOf(first *kind.Kind, kinds *kind.Catalog) (needs []need) {
	known := sets.New[string]()
	seen := make(map[owner]bool)
	for owners := []owner{{kind: first}}; len(owners) > 0; owners = owners[1:] {
		o := owners[0]
		add := func(n need, child schema.GroupVersionKind) {
			if n.child = child.GroupKind(); !o.isFirst() {
				n.through, n.child = o.kind.GroupVersionKind.Kind, o.child
				if slices.Contains(o.kind.Elsewhere, child) && n.in == nil {
					n.in = new("") // where its objects want their children is not known yet
				}
			}
			if !known.Has(n.identity()) {
				known.Insert(n.identity())
				needs = append(needs, n)
			}
		}
		if !o.isFirst() {
			for _, n := range needsOfReads(o.kind) {
				add(n, schema.GroupVersionKind{})
			}
		}
		for _, owned := range o.kind.Owns {
			if !o.isFree(owned) {
				add(need{verb: "create", of: owned}, owned)
			}
			k := kinds.ByGroupKind(owned.GroupKind())
			if k == nil {
				continue
			}
			if next := o.owned(k); !seen[next] {
				seen[next] = true
				owners = append(owners, next)
			}
		}
		for _, g := range o.kind.Grants {
			if isChosen := g.Name == ""; isChosen || !o.isFree(g.Child) {
				add(need{verb: g.Verb, of: g.Role, name: g.Name, grants: true}, g.Child)
			}
		}
		if o.kind.Injects() {
			add(need{verb: "create", of: corev1.SchemeGroupVersion.WithKind("Pod")}, schema.GroupVersionKind{})
		}
		for _, set := range o.kind.Sets {
			if len(set.StrayLabels) > 0 { // the author chooses their values and so what is deleted
				add(need{verb: "delete", of: set.Type}, set.Type)
			}
		}
	}
	slices.SortStableFunc(needs, func(a, b need) int {
		return cmp.Or(strings.Compare(a.of.GroupKind().String(), b.of.GroupKind().String()),
			strings.Compare(a.verb, b.verb))
	})
	return needs
}

// servedAs returns where a type is served. The mapper's first answer is kept. As long as it
// does not know the type, whose CRD may be installed later, the name is guessed as kubectl does.
func (r *Rights) servedAs(gvk schema.GroupVersionKind) (found served, isKnown bool) {
	if known, ok := r.resources.Load(gvk.GroupKind()); ok {
		return known.(served), true
	}
	mapping, err := r.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		guess, _ := meta.UnsafeGuessKindToResource(gvk)
		return served{resource: guess.GroupResource()}, false
	}
	found = served{mapping.Resource.GroupResource(), mapping.Scope.Name() == meta.RESTScopeNameNamespace}
	r.resources.Store(gvk.GroupKind(), found)
	return found, true
}

// rightsFor returns the rights that a need amounts to for an object in a namespace with children in some places.
func (r *Rights) rightsFor(n need, namespace string, places kind.Places) (all []right) {
	namespaces, isChild := places[n.child]
	if !isChild { // it is about the object itself
		namespaces = []string{namespace}
	}
	if n.in != nil {
		namespaces = []string{*n.in}
	}
	for _, namespace := range namespaces {
		all = append(all, r.rightIn(n, namespace))
	}
	return all
}

// rightIn returns the right that a need amounts to in a namespace, or in all if that is empty.
func (r *Rights) rightIn(n need, namespace string) right {
	of, isKnown := r.servedAs(n.of)
	do := right{n.verb, of.resource, namespace, n.name}
	if n.grants {
		return do
	}
	if isKnown && !of.isNamespaced || !isKnown && n.verb != "create" && n.verb != "delete" {
		do.namespace = "" // what is read of an unknown type may be of the cluster, and this includes all namespaces
	}
	return do
}

// isExempt reports whether the rights of a user are not checked.
func (r *Rights) isExempt(user string) bool { return r == nil || r.exempt.Has(user) }

// check returns a Forbidden error that names all rights that the author of a request does not
// have: those that the kind always needs, for children in places, and those for what it reads for the object.
func (r *Rights) check(
	ctx context.Context, k *kind.Kind, request *admissionv1.AdmissionRequest, places kind.Places, reads []need,
) error {
	user := request.UserInfo.Username
	if r.isExempt(user) || user == autoscaler && request.SubResource == scaleSubresource {
		return nil
	}
	gk := k.GroupVersionKind.GroupKind()
	var missing []string
	asked := sets.New[right]()
	for _, n := range slices.Concat(r.needs[gk], reads) {
		for _, do := range r.rightsFor(n, request.Namespace, places) {
			if asked.Has(do) {
				continue
			}
			asked.Insert(do)
			ok, err := r.may(ctx, request.UserInfo, do)
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("check the rights of user %q: %w", user, err))
			}
			if !ok {
				missing = append(missing, describe(user, do, n.through))
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: gk.Group, Resource: k.Names.Plural}, request.Name,
		errors.New(strings.Join(missing, "; ")+", which the kind "+gk.Kind+" does on behalf of the user"))
}

// describe reports a missing right in the API server's words, with the kind in between that
// needs it, if any.
func describe(user string, do right, through string) string {
	text := fmt.Sprintf("user %q cannot %s resource %q", user, do.verb, do.resource.Resource)
	if do.name != "" {
		text += fmt.Sprintf(" named %q", do.name)
	}
	text += fmt.Sprintf(" in API group %q", do.resource.Group)
	if do.namespace == "" {
		text += " at the cluster scope"
	} else {
		text += fmt.Sprintf(" in the namespace %q", do.namespace)
	}
	if through != "" {
		text += " (through the kind " + through + ")"
	}
	return text
}

// may asks the API server, or returns its cached answer.
func (r *Rights) may(ctx context.Context, user authenticationv1.UserInfo, do right) (bool, error) {
	key := rightKey(user, do)
	if answer, known := r.answers.Get(key); known {
		return answer.(bool), nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: do.verb, Group: do.resource.Group,
			Resource: do.resource.Resource, Namespace: do.namespace, Name: do.name},
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

// rightKey contains everything that an access review may depend on. Texts are quoted, so that
// one cannot look like two.
func rightKey(user authenticationv1.UserInfo, do right) string {
	key := make([]byte, 0, 256)
	add := func(texts ...string) {
		for _, text := range texts {
			key = strconv.AppendQuote(key, text)
		}
		key = append(key, '\n')
	}
	add(do.verb, do.resource.Group, do.resource.Resource, do.namespace, do.name, user.Username, user.UID)
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
