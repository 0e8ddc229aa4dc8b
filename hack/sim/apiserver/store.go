// Package apiserver is a model of the Kubernetes API server, in memory, for simulations: what it answers to requests,
// and what watches see. Its tests send the same requests to it and to a real API server.
package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// Resource is a type that is served. Stores may share it.
type Resource struct {
	schema.GroupVersionResource
	Kind string
	// IsClusterScoped means that objects have no namespace, HasStatus that the status is a subresource, and
	// HasGeneration that objects count the changes of their spec.
	IsClusterScoped, HasStatus, HasGeneration bool
	// CRD defines it, unless Kubernetes has it: then an update need not name the version that it changes, and objects
	// may be anything.
	CRD *apiextensionsv1.CustomResourceDefinition

	rules *crdRules
	fields
}

// Custom returns the resource that a CRD defines, in the version that is stored.
func Custom(crd *apiextensionsv1.CustomResourceDefinition) (r Resource, err error) {
	version, err := apihelpers.GetCRDStorageVersion(crd)
	if err != nil {
		return r, err
	}
	subresources, err := apihelpers.GetSubresourcesForVersion(crd, version)
	if err != nil {
		return r, err
	}
	rules, err := rulesOf(crd, version)
	if err != nil {
		return r, err
	}
	r = Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: crd.Spec.Group, Version: version,
			Resource: crd.Spec.Names.Plural},
		Kind: crd.Spec.Names.Kind, IsClusterScoped: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
		HasStatus: subresources != nil && subresources.Status != nil, HasGeneration: true, CRD: crd, rules: rules,
	}
	r.fields, err = newFields(r)
	return r, err
}

// withStatus are the types of Kubernetes that have a status, and whether they have a generation.
var withStatus = map[schema.GroupKind]bool{
	{Kind: "Pod"}: true, {Kind: "Service"}: false, {Kind: "PersistentVolumeClaim"}: false, {Kind: "Namespace"}: false,
	{Kind: "ResourceQuota"}:             false,
	{Group: "apps", Kind: "Deployment"}: true, {Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "apps", Kind: "DaemonSet"}: true, {Group: "apps", Kind: "ReplicaSet"}: true,
	{Group: "batch", Kind: "Job"}: true, {Group: "batch", Kind: "CronJob"}: true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:          true,
	{Group: "networking.k8s.io", Kind: "Ingress"}:           true,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: false,
}

// ofCluster are the types of Kubernetes without namespaces that kinds have children of.
var ofCluster = sets.New(
	schema.GroupKind{Kind: "Namespace"}, schema.GroupKind{Kind: "PersistentVolume"},
	schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"},
	schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
	schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"},
	schema.GroupKind{Group: "scheduling.k8s.io", Kind: "PriorityClass"},
)

// Of returns the resource of a type: one of Kubernetes, or one that a CRD defines whose objects may have all fields.
func Of(kind schema.GroupVersionKind) (Resource, error) {
	if scheme.Scheme.Recognizes(kind) {
		return builtIn(kind)
	}
	return Custom(definition(kind, apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}))
}

// definition returns a CRD for a type with namespaces and a status, whose objects have a schema.
func definition(
	kind schema.GroupVersionKind, of apiextensionsv1.JSONSchemaProps,
) *apiextensionsv1.CustomResourceDefinition {
	plural, singular := meta.UnsafeGuessKindToResource(kind)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural.Resource, Singular: singular.Resource,
				Kind: kind.Kind, ListKind: kind.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &of},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				},
			}},
		},
	}
}

// builtIn returns the resource of a type of Kubernetes.
func builtIn(kind schema.GroupVersionKind) (r Resource, err error) {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	hasGeneration, hasStatus := withStatus[kind.GroupKind()]
	r = Resource{
		GroupVersionResource: resource, Kind: kind.Kind, IsClusterScoped: ofCluster.Has(kind.GroupKind()),
		HasStatus: hasStatus, HasGeneration: hasGeneration,
	}
	r.fields, err = newFields(r)
	return r, err
}

func (r Resource) isCustom() bool { return r.CRD != nil }

// key is the name of an object.
type key struct{ namespace, name string }

// table has the objects of a resource.
type table struct {
	Resource
	objects map[key]*unstructured.Unstructured
	// dropped are the objects that are stored with empty fields of the metadata, which nobody sees: so the next write
	// changes them, even if it is the same.
	dropped map[key]bool
}

// Change is a write of an object. Before is nil if it was created, and After if it was deleted.
type Change struct {
	Version       int
	At            time.Time
	Before, After *unstructured.Unstructured
	// By is the user agent of the client that wrote it, or the name that Do was given.
	By string

	table *table
}

// Store has all objects, and decides what requests do to them. Nothing in it waits, and it is not safe for concurrent
// use. Objects that it returns must not be changed.
type Store struct {
	// Webhooks are called when objects are written; nil are none.
	Webhooks *Webhooks
	// Skew is how far the clock of the API server is ahead of that of its clients.
	Skew time.Duration

	tables []*table
	// namespaces and types have the states of namespaces and of CRDs that are being deleted, or were.
	namespaces map[string]string
	types      map[schema.GroupVersionResource]string
	// defined are the types whose CRDs are objects of the store.
	defined []schema.GroupVersionResource

	version int
	uids    int
	now     func() time.Time
	// changes are all writes, in their order. Those until the version forgotten are not shown to watches any more.
	changes   []Change
	forgotten int
	restores  int    // how often an older state was restored
	by        string // the user agent of the client that writes, or the name that Do was given
}

// Clock is how stories show times.
const Clock = "15:04:05.000"

// Object returns what was written or, if it was deleted, what it was before.
func (c Change) Object() *unstructured.Unstructured {
	if c.After == nil {
		return c.Before
	}
	return c.After
}

// String tells what was written.
func (c Change) String() string {
	object, verb, what := c.Object(), "changes", ""
	switch {
	case c.Before == nil:
		verb, what = "creates", fmt.Sprintf("%.200s", fmt.Sprint(object.Object["spec"]))
	case c.After == nil:
		verb = "deletes"
	default:
		what = strings.Join(changes("", c.Before.Object, c.After.Object), ", ")
		if what == "" {
			what = fmt.Sprintf("managedFields only: %v → %v", c.Before.GetManagedFields(), c.After.GetManagedFields())
		}
	}
	return fmt.Sprintf("%s %d %s %s %s/%s/%s %s", c.At.Format(Clock), c.Version, c.By, verb, object.GetKind(),
		object.GetNamespace(), object.GetName(), what)
}

// changes returns the fields that differ in two values, but for those that change with every write.
func changes(path string, before, after any) (all []string) {
	if path == ".metadata.managedFields" || path == ".metadata.resourceVersion" || path == ".metadata.generation" ||
		equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	switch a := before.(type) {
	case map[string]any:
		if b, isStruct := after.(map[string]any); isStruct {
			for _, name := range slices.Sorted(maps.Keys(sets.KeySet(a).Union(sets.KeySet(b)))) {
				all = append(all, changes(path+"."+name, a[name], b[name])...)
			}
			return all
		}
	case []any:
		if b, isList := after.([]any); isList && len(a) == len(b) {
			for i := range a {
				all = append(all, changes(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])...)
			}
			return all
		}
	}
	return []string{fmt.Sprintf("%s: %.200s → %.200s", strings.TrimPrefix(path, "."), fmt.Sprint(before),
		fmt.Sprint(after))}
}

// firstVersion is that of an empty store. An API server has older ones, which it does not remember.
const firstVersion = 100

// NewStore returns a store that serves resources, with no objects. now is the clock.
func NewStore(now func() time.Time, resources ...Resource) *Store {
	s := &Store{now: now, version: firstVersion, forgotten: firstVersion, namespaces: make(map[string]string),
		types: make(map[schema.GroupVersionResource]string)}
	for _, r := range resources {
		s.tables = append(s.tables, &table{Resource: r, objects: make(map[key]*unstructured.Unstructured),
			dropped: make(map[key]bool)})
	}
	return s
}

// table returns that of a resource; nil if it is not served.
func (s *Store) table(resource schema.GroupVersionResource) *table {
	for _, t := range s.tables {
		if t.GroupVersionResource == resource && s.types[resource] != gone {
			return t
		}
	}
	return nil
}

func (t *table) groupKind() schema.GroupKind { return schema.GroupKind{Group: t.Group, Kind: t.Kind} }

func (t *table) notFound(name string) error {
	return apierrors.NewNotFound(t.GroupResource(), name)
}

// get returns an object.
func (s *Store) get(t *table, k key) (*unstructured.Unstructured, error) {
	if object := t.objects[k]; object != nil {
		return object, nil
	}
	return nil, t.notFound(k.name)
}

// list returns the objects in a namespace, or in all, in the order of their names.
func (s *Store) list(t *table, namespace string) (found []*unstructured.Unstructured) {
	for _, object := range t.objects {
		if namespace == "" || object.GetNamespace() == namespace {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return found
}

// empty returns an object of a table without anything.
func (t *table) empty() *unstructured.Unstructured {
	return emptyObject(t.GroupVersion().WithKind(t.Kind))
}

// author is the sender of a request, and how it asks to write.
type author struct {
	// manager is the name under which fields are managed, and user who is authenticated.
	manager, user string
	// isStrict means that fields which the schema does not know are an error.
	isStrict bool
}

// create adds an object that an author has written.
func (s *Store) create(
	t *table, namespace string, given *unstructured.Unstructured, by author,
) (*unstructured.Unstructured, error) {
	object, err := t.decode(given, by.isStrict)
	if err != nil {
		return nil, err
	}
	return s.add(t, namespace, t.written(false, t.empty(), object, by.manager), by, false)
}

// add adds an object that has managedFields.
func (s *Store) add(
	t *table, namespace string, object *unstructured.Unstructured, by author, dropped bool,
) (*unstructured.Unstructured, error) {
	if err := inNamespace(object, namespace); err != nil {
		return nil, err
	}
	if object.GetResourceVersion() != "" {
		return nil, plain("resourceVersion should not be set on objects to be created")
	}
	if err := s.mayBeIn(t, namespace, object.GetName()); err != nil {
		return nil, err
	}
	object.SetNamespace(namespace)
	object, err := s.mutated(t, false, object, nil, by)
	if err != nil {
		return nil, err
	}
	s.uids++
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(fmt.Sprintf("%s%05d", object.GetGenerateName(), s.uids))
	}
	k := key{namespace, object.GetName()}
	if t.HasStatus {
		delete(object.Object, "status")
	}
	if err := t.validate(false, object, nil); err != nil {
		return nil, err
	}
	if problems := t.validName()(object.GetName(), false); len(problems) > 0 {
		return nil, t.invalid(object.GetName(), field.Invalid(field.NewPath("metadata", "name"), object.GetName(), strings.Join(problems, "; ")))
	}
	if t.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(t.GroupResource(), k.name)
	}
	if err := s.validated(t, false, object, nil, by); err != nil {
		return nil, err
	}
	object.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids)))
	object.SetCreationTimestamp(s.timestamp())
	object.SetDeletionTimestamp(nil)
	object.SetDeletionGracePeriodSeconds(nil)
	object.SetGeneration(0)
	if t.HasGeneration {
		object.SetGeneration(1)
	}
	if _, hasStatus := object.Object["status"]; t.isCustom() && !hasStatus {
		t.rules.Default(object) // of its status: clients read them, and the next write stores them
		dropped = dropped || object.Object["status"] != nil
	}
	return s.write(t, object, dropped), nil
}

// timestamp returns the present time of the API server.
func (s *Store) timestamp() metav1.Time {
	return metav1.NewTime(s.now().Add(s.Skew).Truncate(time.Second))
}

// plain returns how the API server answers an error that has no status.
func plain(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
		Code: http.StatusInternalServerError, Message: message}}
}

// named returns why an object cannot have the name of a request.
func named(object *unstructured.Unstructured, name string) error {
	if object.GetName() != name {
		return apierrors.NewBadRequest(
			fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", object.GetName(), name))
	}
	return nil
}

// inNamespace returns why an object cannot be in the namespace of a request.
func inNamespace(object *unstructured.Unstructured, namespace string) error {
	if named := object.GetNamespace(); named != "" && named != namespace {
		return apierrors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// canonical returns a copy of an object without the empty fields that the API server drops when it decodes it: those of
// the metadata, and the lists and nulls of Kubernetes' own types. It reports whether the metadata had such.
func (t *table) canonical(given *unstructured.Unstructured) (object *unstructured.Unstructured, dropped bool) {
	object = given.DeepCopy()
	metadata, _ := object.Object["metadata"].(map[string]any)
	for _, name := range []string{"annotations", "finalizers", "labels", "ownerReferences"} {
		value, exists := metadata[name]
		list, isList := value.([]any)
		fields, isMap := value.(map[string]any)
		if exists && (value == nil || isList && len(list) == 0 || isMap && len(fields) == 0) {
			dropped = true
			delete(metadata, name)
		}
	}
	if !t.isCustom() {
		dropEmpty(object.Object)
	}
	if t.groupKind() == (schema.GroupKind{Kind: "Secret"}) {
		if object.Object["type"] == nil {
			object.Object["type"] = string(corev1.SecretTypeOpaque)
		}
		StoreText(object.Object)
	}
	return object, dropped
}

// StoreText moves the stringData of a Secret to its data.
func StoreText(secret map[string]any) {
	text, _ := secret["stringData"].(map[string]any)
	delete(secret, "stringData")
	if len(text) == 0 {
		return
	}
	had, _ := secret["data"].(map[string]any)
	data := make(map[string]any, len(had)+len(text))
	maps.Copy(data, had)
	for name, value := range text {
		text, _ := value.(string)
		data[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	secret["data"] = data
}

// dropEmpty removes empty lists and nulls, which the types of Kubernetes leave out of their JSON, all but two lists.
func dropEmpty(value any) {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(name string, v any) bool {
			list, isList := v.([]any)
			return (isList && len(list) == 0 || v == nil) && name != "containers" && name != "rules"
		})
		for _, v := range value {
			dropEmpty(v)
		}
	case []any:
		for _, v := range value {
			dropEmpty(v)
		}
	}
}

// isTyped reports whether an object says that it is one of the resource.
func (t *table) isTyped(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind() == t.GroupVersion().WithKind(t.Kind)
}

// decodable returns why the API server cannot decode an object. What a CRD defines is decoded whatever it says, and
// validated later.
func (t *table) decodable(object *unstructured.Unstructured) error {
	if t.isTyped(object) || t.isCustom() {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", object.GetKind(),
		object.GetAPIVersion(), t.Kind))
}

// decode returns a copy of an object as the API server decodes it.
func (t *table) decode(given *unstructured.Unstructured, isStrict bool) (*unstructured.Unstructured, error) {
	if err := t.decodable(given); err != nil {
		return nil, err
	}
	object, _ := t.canonical(given)
	if !t.isCustom() || !t.isTyped(object) {
		return object, nil
	}
	unknown, err := t.rules.decode(object)
	if err != nil || len(unknown) == 0 || !isStrict {
		return object, err
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: strict decoding error: unknown field %q",
		t.Kind, t.Version, t.Kind, strings.Join(unknown, ", ")))
}

// validate returns why an object, or its status, is invalid. live is what it replaces; nil is nothing.
func (t *table) validate(status bool, object, live *unstructured.Unstructured) error {
	var problems field.ErrorList
	switch {
	case !t.isTyped(object):
		problems = field.ErrorList{field.Invalid(field.NewPath("kind"), object.GetKind(), "must be "+t.Kind)}
	case t.isCustom():
		problems = t.rules.problems(status, object, live)
	}
	if len(problems) > 0 {
		return t.invalid(object.GetName(), problems...)
	}
	return nil
}

// validName returns the rule for names.
func (t *table) validName() validation.ValidateNameFunc {
	switch t.groupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		return validation.ValidateNamespaceName
	case schema.GroupKind{Kind: "Service"}:
		return validation.NameIsDNS1035Label
	}
	return validation.NameIsDNSSubdomain
}

// update replaces an object, or its status, by what an author has written.
func (s *Store) update(
	t *table, k key, status bool, given *unstructured.Unstructured, by author,
) (*unstructured.Unstructured, error) {
	object, err := t.decode(given, by.isStrict)
	if err != nil {
		return nil, err
	}
	live := t.objects[k]
	if err := t.mayChange(k, live, given); err != nil {
		return nil, err
	}
	if uid := given.GetUID(); uid != "" && uid != live.GetUID() {
		return nil, t.conflict(k.name, "Precondition failed: UID in precondition: %v, UID in object meta: %v", uid,
			live.GetUID())
	}
	if err := t.isCurrent(k, live, given); err != nil {
		return nil, err
	}
	return s.replace(t, k, live, status, t.written(status, live, object, by.manager), by, false)
}

// apply merges what an author applies to an object, or to its status, and creates the object if there is none.
func (s *Store) apply(
	t *table, k key, status bool, given *unstructured.Unstructured, by author, force bool,
) (object *unstructured.Unstructured, isNew bool, err error) {
	live := t.objects[k]
	if live == nil && status {
		return nil, false, t.notFound(k.name)
	}
	base := live
	if live == nil {
		base = t.empty()
	}
	merged, err := t.applied(status, base, given, by.manager, force)
	if err != nil {
		return nil, false, err
	}
	merged, dropped := t.canonical(merged)
	if !t.isCustom() || status {
		dropped = false // only custom objects are stored as they are applied
	}
	if live != nil {
		object, err = s.replacePatched(t, k, live, status, merged, by, dropped)
		return object, false, err
	}
	if uid := merged.GetUID(); uid != "" {
		return nil, false,
			t.conflict(k.name, "uid mismatch: the provided object specified uid %s, and no existing object was found",
				uid)
	}
	if err := named(merged, k.name); err != nil {
		return nil, false, err
	}
	merged.SetResourceVersion("") // it is ignored
	object, err = s.add(t, k.namespace, merged, by, dropped)
	return object, true, err
}

// replacePatched replaces an object by one that has been patched and has its managedFields.
func (s *Store) replacePatched(
	t *table, k key, live *unstructured.Unstructured, status bool, patched *unstructured.Unstructured, by author,
	dropped bool,
) (*unstructured.Unstructured, error) {
	if err := t.mayChange(k, live, patched); err != nil {
		return nil, err
	}
	if err := t.isCurrent(k, live, patched); err != nil {
		return nil, err
	}
	if uid := patched.GetUID(); !status && uid != live.GetUID() { // of an update, this is a precondition
		return nil, t.invalid(k.name, field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"))
	}
	return s.replace(t, k, live, status, patched, by, dropped)
}

// mayChange returns why an object cannot be replaced by another, in the order in which the API server asks. live is nil
// if there is none.
func (t *table) mayChange(k key, live, given *unstructured.Unstructured) error {
	if err := named(given, k.name); err != nil {
		return err
	}
	if err := inNamespace(given, k.namespace); err != nil {
		return err
	}
	if live == nil {
		return t.notFound(k.name)
	}
	return nil
}

// isCurrent returns why the version that an object names is not that of the present one.
func (t *table) isCurrent(k key, live, given *unstructured.Unstructured) error {
	switch version := given.GetResourceVersion(); {
	case version == "" && t.isCustom():
		return t.invalid(k.name, field.Invalid(field.NewPath("metadata", "resourceVersion"), 0,
			"must be specified for an update"))
	case version != "" && version != live.GetResourceVersion():
		return t.modified(k.name)
	}
	return nil
}

func (t *table) conflict(name, format string, args ...any) error {
	return apierrors.NewConflict(t.GroupResource(), name, fmt.Errorf(format, args...))
}

// modified is the conflict of a write that is based on an older version.
func (t *table) modified(name string) error {
	return t.conflict(name,
		"the object has been modified; please apply your changes to the latest version and try again")
}

func (t *table) invalid(name string, errs ...*field.Error) error {
	return apierrors.NewInvalid(t.groupKind(), name, errs)
}

// replace stores a changed object, which has its managedFields, or its status alone, and keeps what nobody can change.
func (s *Store) replace(
	t *table, k key, live *unstructured.Unstructured, status bool, given *unstructured.Unstructured, by author,
	dropped bool,
) (*unstructured.Unstructured, error) {
	object, err := s.mutated(t, status, given, live, by)
	if err != nil {
		return nil, err
	}
	if status {
		changed := object
		object, dropped = live.DeepCopy(), false
		setOrDelete(object.Object, "status", changed.Object["status"])
		object.SetManagedFields(changed.GetManagedFields())
	} else if t.HasStatus {
		setOrDelete(object.Object, "status", live.Object["status"])
	}
	if err := t.validate(status, object, live); err != nil {
		return nil, err
	}
	object.SetNamespace(k.namespace)
	object.SetUID(live.GetUID())
	object.SetResourceVersion(live.GetResourceVersion())
	object.SetCreationTimestamp(live.GetCreationTimestamp())
	object.SetDeletionTimestamp(live.GetDeletionTimestamp())
	object.SetDeletionGracePeriodSeconds(live.GetDeletionGracePeriodSeconds())
	object.SetGeneration(live.GetGeneration())
	if added := sets.New(object.GetFinalizers()...).Difference(
		sets.New(live.GetFinalizers()...)); live.GetDeletionTimestamp() != nil && added.Len() > 0 {
		return nil, t.invalid(k.name, field.Forbidden(field.NewPath("metadata", "finalizers"),
			fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %#v",
				sets.List(added))))
	}
	if err := s.validated(t, status, object, live, by); err != nil {
		return nil, err
	}
	if isSame(object, live) && !dropped && !t.dropped[k] {
		return live, nil // it keeps its version
	}
	if t.HasGeneration && !status && !equality.Semantic.DeepEqual(withoutMetadata(object, t),
		withoutMetadata(live, t)) {
		object.SetGeneration(live.GetGeneration() + 1)
	}
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return s.drop(t, k, object), nil
	}
	return s.write(t, object, dropped), nil
}

func setOrDelete(object map[string]any, name string, value any) {
	if value == nil {
		delete(object, name)
		return
	}
	object[name] = value
}

// withoutMetadata returns what counts for the generation.
func withoutMetadata(object *unstructured.Unstructured, t *table) map[string]any {
	counted := make(map[string]any)
	for name, value := range object.Object {
		if name != "metadata" && (name != "status" || !t.HasStatus) {
			counted[name] = value
		}
	}
	return counted
}

// delete deletes an object, or marks it if it has finalizers. isGone reports that nothing is left.
func (s *Store) delete(
	t *table, k key, options metav1.DeleteOptions,
) (object *unstructured.Unstructured, isGone bool, err error) {
	live, err := s.get(t, k)
	if err != nil {
		return nil, false, err
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != live.GetUID() {
			return nil, false,
				t.conflict(k.name, "Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID,
					live.GetUID())
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != live.GetResourceVersion() {
			return nil, false,
				t.conflict(k.name,
					"Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
					*p.ResourceVersion, live.GetResourceVersion())
		}
	}
	object = live.DeepCopy()
	finalizers := slices.DeleteFunc(object.GetFinalizers(), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch policy := options.PropagationPolicy; {
	case policy != nil && *policy == metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	case policy != nil && *policy == metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	case policy == nil:
		finalizers = object.GetFinalizers()
	}
	object.SetFinalizers(finalizers)
	if len(finalizers) == 0 {
		return s.drop(t, k, object), true, nil
	}
	if object.GetDeletionTimestamp() == nil {
		object.SetDeletionTimestamp(new(s.timestamp()))
		object.SetDeletionGracePeriodSeconds(new(int64))
		if object.GetGeneration() > 0 {
			object.SetGeneration(object.GetGeneration() + 1)
		}
	}
	if equality.Semantic.DeepEqual(object.Object, live.Object) && !t.dropped[k] {
		return live, false, nil
	}
	return s.write(t, object, false), false, nil
}

// write stores an object under a new version.
func (s *Store) write(t *table, object *unstructured.Unstructured, dropped bool) *unstructured.Unstructured {
	k := key{object.GetNamespace(), object.GetName()}
	s.version++
	object.SetResourceVersion(strconv.Itoa(s.version))
	object.Object, _ = asRead(object.Object).(map[string]any)
	s.changes = append(s.changes, Change{s.version, s.now(), t.objects[k], object, s.by, t})
	t.objects[k] = object
	t.dropped[k] = dropped
	return object
}

// asRead returns a value with the numbers that a client reads of it: JSON writes 1.0 as 1, which is an integer. Parts
// of the value may be those of the state before, which clients read meanwhile.
func asRead(value any) any {
	switch value := value.(type) {
	case map[string]any:
		read := make(map[string]any, len(value))
		for name, v := range value {
			read[name] = asRead(v)
		}
		return read
	case []any:
		read := make([]any, len(value))
		for i, v := range value {
			read[i] = asRead(v)
		}
		return read
	case float64:
		if value == math.Trunc(value) && math.Abs(value) < math.MaxInt64 {
			return int64(value)
		}
	}
	return value
}

// drop removes an object, which takes a version as well, and returns its last state.
func (s *Store) drop(t *table, k key, last *unstructured.Unstructured) *unstructured.Unstructured {
	s.version++
	s.changes = append(s.changes, Change{s.version, s.now(), t.objects[k], nil, s.by, t})
	delete(t.objects, k)
	delete(t.dropped, k)
	return last
}

// since returns the changes after a version, or an error if they are forgotten.
func (s *Store) since(version int) ([]Change, error) {
	if version < s.forgotten {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, s.forgotten))
	}
	first, _ := slices.BinarySearchFunc(s.changes, version+1,
		func(c Change, version int) int { return c.Version - version })
	return s.changes[first:], nil
}

// decoded returns the object of a request.
func decoded(body []byte) (*unstructured.Unstructured, error) {
	object := new(unstructured.Unstructured)
	if err := object.UnmarshalJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return object, nil
}

// encoded returns an object as JSON.
func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return text
}
