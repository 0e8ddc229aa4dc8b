package install

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
)

// What the engine asks of the API server. Server-side apply is a patch that also needs
// create, and the engine gets a child live before it creates it.
var (
	objectVerbs    = []string{"list", "watch"}
	statusVerbs    = []string{"update"}
	keepVerbs      = []string{"patch"}
	lookupVerbs    = []string{"list", "watch"}
	childVerbs     = []string{"create", "delete", "get", "list", "patch", "watch"}
	eventVerbs     = []string{"create"}
	finalizerVerbs = []string{"update"}
)

// Right is one verb on one resource; Name limits it to one object.
type Right struct {
	Group, Resource, Verb, Name string
}

// In returns the right in a namespace, or in all if it is empty, as `kubectl auth can-i` takes it.
func (r Right) In(namespace string) string {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	text := r.Verb + " " + schema.GroupResource{Group: r.Group, Resource: resource}.String()
	if subresource != "" {
		text += "/" + subresource
	}
	if r.Name != "" {
		text += "/" + r.Name
	}
	if namespace != "" {
		text += " in " + namespace
	}
	return text
}

// ForKind lists the rights for running a kind, sorted. The roles of an installation grant
// them, and the operator checks them before it starts a kind.
func ForKind(k *kind.Kind, resourceOf ResourceOf) ([]Right, error) {
	all := make(map[Right]bool)
	add := func(r schema.GroupResource, subresource string, verbs []string) {
		if subresource != "" {
			r.Resource += "/" + subresource
		}
		for _, verb := range verbs {
			all[Right{Group: r.Group, Resource: r.Resource, Verb: verb}] = true
		}
	}
	add(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "", eventVerbs)
	own, err := ownResource(k, resourceOf)
	if err != nil {
		return nil, err
	}
	if !own.Empty() {
		add(own, "", objectVerbs)
	}
	if k.Target == nil { // what is decorated is not written
		add(own, "status", statusVerbs)
	}
	if k.IsHeld() { // the finalizer is in the metadata of the object
		add(own, "", keepVerbs)
	}
	if k.Injects() { // injected Pods are counted, and repeated Events are patched
		add(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "", []string{"patch"})
		add(schema.GroupResource{Resource: "pods"}, "", objectVerbs)
	}
	for _, owned := range k.Owns {
		resource, err := resourceOf(owned)
		if err != nil {
			return nil, fmt.Errorf("children of type %s: %w", kind.TypeName(owned), err)
		}
		if resource.Empty() {
			continue
		}
		add(resource, "", childVerbs)
	}
	for _, target := range k.Lookups.Targets() {
		resource, err := resourceOf(target.Type)
		if err != nil {
			return nil, fmt.Errorf("reads of type %s: %w", kind.TypeName(target.Type), err)
		}
		if resource.Empty() {
			continue
		}
		for _, verb := range lookupVerbs { // a field selector for a name needs the right to that name alone
			all[Right{resource.Group, resource.Resource, verb, target.ObjectName}] = true
		}
	}
	for _, g := range k.Grants {
		resource, err := resourceOf(g.Role)
		if err != nil {
			return nil, fmt.Errorf("children of type %s: %w", kind.TypeName(g.Child), err)
		}
		// Rights to bind any role, or for targets of a decorator whose authors nobody asks, are not given unasked.
		if g.Name != "" && k.Target == nil && !resource.Empty() {
			all[Right{resource.Group, resource.Resource, g.Verb, g.Name}] = true
		}
	}
	if len(k.Owns) > 0 && k.Target == nil {
		// Children block the deletion of their owner, and where the admission plugin
		// OwnerReferencesPermissionEnforcement is on, setting that needs this right.
		add(own, "finalizers", finalizerVerbs)
	}
	return slices.SortedFunc(maps.Keys(all), compareRights), nil
}

// ownResource returns the resource of the objects of a kind.
func ownResource(k *kind.Kind, resourceOf ResourceOf) (schema.GroupResource, error) {
	if k.Target == nil {
		return k.GroupVersionResource().GroupResource(), nil
	}
	resource, err := resourceOf(k.GroupVersionKind)
	if err != nil {
		return resource, fmt.Errorf("objects of type %s: %w", kind.TypeName(k.GroupVersionKind), err)
	}
	return resource, nil
}

// forKinds lists the rights for running all kinds.
func forKinds(kinds []*kind.Kind, resourceOf ResourceOf) ([]Right, error) {
	all := make(map[Right]bool)
	for _, k := range kinds {
		rights, err := ForKind(k, resourceOf)
		if err != nil {
			return nil, fmt.Errorf("kind %s: %w", k.Title(), err)
		}
		for _, r := range rights {
			all[r] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), compareRights), nil
}

func compareRights(a, b Right) int {
	return strings.Compare(a.Group+"\x00"+a.Resource+"\x00"+a.Name+"\x00"+a.Verb, b.Group+"\x00"+b.Resource+"\x00"+
		b.Name+"\x00"+b.Verb)
}

// toWatchCRDs returns the rights by which the operator notices that a CRD is installed, changed or
// removed.
func toWatchCRDs(kinds []*kind.Kind) []Right {
	if len(kinds) == 0 {
		return nil
	}
	// The right to list is not limited to names, because the operator reports CRDs without a kind. Anyone who may use
	// the API server's discovery sees their names, too.
	rights := []Right{{"apiextensions.k8s.io", "customresourcedefinitions", "list", ""}}
	for _, k := range kinds {
		rights = append(rights, Right{"apiextensions.k8s.io", "customresourcedefinitions", "watch", k.Name()})
	}
	return rights
}

// forCRDs returns the rights for `fescue run --install-crds`. Server-side apply names the
// object that it creates, so even create is limited to these names.
func forCRDs(kinds []*kind.Kind) []Right {
	var rights []Right
	for _, k := range kinds {
		for _, verb := range []string{"create", "patch"} {
			rights = append(rights, Right{"apiextensions.k8s.io", "customresourcedefinitions", verb, k.Name()})
		}
	}
	return rights
}

// forWebhooks returns the rights of admission outside the namespace of the operator: it puts the certificate authority
// into its configurations and the CRDs with conversions, recreates them if they were deleted, and checks whether the
// author of an object may create the object's children.
func forWebhooks(w *Webhooks) ([]Right, error) {
	rights := []Right{{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verb: "create"}}
	if w.ReadsNamespaces {
		rights = append(rights, Right{Resource: "namespaces", Verb: "list"},
			Right{Resource: "namespaces", Verb: "watch"})
	}
	for _, name := range w.Converting {
		rights = append(rights, Right{"apiextensions.k8s.io", "customresourcedefinitions", "patch", name})
	}
	for _, configuration := range w.Configurations {
		object, err := clean(configuration)
		if err != nil {
			return nil, err
		}
		resource := strings.ToLower(object.GetKind()) + "s"
		for _, verb := range []string{"create", "list", "patch", "watch"} {
			rights = append(rights, Right{object.GroupVersionKind().Group, resource, verb, object.GetName()})
		}
	}
	return rights, nil
}

// inOwnNamespace returns the rights in the operator's namespace: the Leases and, with
// webhooks, the Secret with their certificate. A right to create cannot be limited to a name,
// since POST has none.
func inOwnNamespace(o Options) []Right {
	const group, leases = "coordination.k8s.io", "leases"
	rights := []Right{{Group: group, Resource: leases, Verb: "create"}}
	for _, lease := range o.Leases() {
		rights = append(rights, Right{group, leases, "update", lease})
	}
	if o.Shards > 1 { // which of them to take depends on all
		rights = append(rights, Right{Group: group, Resource: leases, Verb: "list"})
	} else {
		rights = append(rights, Right{group, leases, "get", LeaseName})
	}
	if w := o.Webhooks; w != nil {
		rights = append(rights, Right{Resource: "secrets", Verb: "create"})
		for _, verb := range []string{"get", "list", "update", "watch"} {
			rights = append(rights, Right{Resource: "secrets", Verb: verb, Name: w.Secret})
		}
	}
	return rights
}

// rules writes rights as few rules: one for all resources of a group that need the same
// verbs.
func rules(rights []Right) []rbacv1.PolicyRule {
	type object struct{ group, resource, name string }
	type rule struct{ group, name, verbs string }
	verbs := make(map[object][]string)
	for _, r := range rights {
		of := object{r.Group, r.Resource, r.Name}
		verbs[of] = append(verbs[of], r.Verb)
	}
	resources := make(map[rule][]string)
	for of, v := range verbs {
		slices.Sort(v)
		r := rule{of.group, of.name, strings.Join(slices.Compact(v), ",")}
		resources[r] = append(resources[r], of.resource)
	}
	var list []rbacv1.PolicyRule
	for r, names := range resources {
		slices.Sort(names)
		granted := rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: names, Verbs: strings.Split(r.verbs, ",")}
		if r.name != "" {
			granted.ResourceNames = []string{r.name}
		}
		list = append(list, granted)
	}
	slices.SortFunc(list, func(a, b rbacv1.PolicyRule) int {
		return slices.Compare(slices.Concat(a.APIGroups, a.Resources, a.ResourceNames),
			slices.Concat(b.APIGroups, b.Resources, b.ResourceNames))
	})
	// Names with the same rights share a rule.
	var merged []rbacv1.PolicyRule
	for _, r := range list {
		same := slices.IndexFunc(merged, func(m rbacv1.PolicyRule) bool {
			return len(m.ResourceNames) > 0 && len(r.ResourceNames) > 0 &&
				slices.Equal(m.APIGroups, r.APIGroups) && slices.Equal(m.Resources, r.Resources) &&
				slices.Equal(m.Verbs, r.Verbs)
		})
		if same < 0 {
			merged = append(merged, r)
			continue
		}
		merged[same].ResourceNames = append(merged[same].ResourceNames, r.ResourceNames...)
	}
	return merged
}
