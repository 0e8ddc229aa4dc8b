package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/cue/kind"
)

const (
	// objectTimeoutSeconds is how long writing an object waits for Fescue before it fails: the
	// API server's default.
	objectTimeoutSeconds = 10
	// podTimeoutSeconds is how long creating a Pod waits for Fescue before the Pod is created
	// without injection. Less is too short when a whole deployment restarts.
	podTimeoutSeconds = 5
)

// SelectionLabel is set to SelectionEnabled on the namespaces in which objects may select
// Pods without an annotation. The API server does not know the selectors, so it sends all
// new Pods of these namespaces, and none of other namespaces.
const (
	SelectionLabel   = "fescue.dev/selection"
	SelectionEnabled = "enabled"
)

// DefaultName is the default name of both configurations.
const DefaultName = "fescue"

// mirrorAnnotation marks Pods that a kubelet has read from a file. Nothing can change them.
const mirrorAnnotation = corev1.MirrorPodAnnotationKey

// Webhooks defines where the API server reaches the webhooks and in which namespaces it calls
// them.
type Webhooks struct {
	// Name of both configurations; "" means DefaultName.
	Name string
	// URL is the prefix of the paths, as in https://10.0.0.1:9443; "" means that Service is set.
	URL string
	// Service is where the server is reached in the cluster.
	Service *admissionregistrationv1.ServiceReference
	// CABundle is the PEM text of the certificates that the API server trusts; nil leaves
	// this to others, such as cert-manager.
	CABundle []byte
	// Namespace is the one that Fescue runs in, whose Pods must start without it; "" means none.
	Namespace string
	// Namespaces limits the webhooks to these; none means all.
	Namespaces []string
	// User is the name of the operator's account, whose writes of the status are not sent.
	User string
}

// Configurations returns what the API server needs to call the webhooks for kinds, and, if any
// of them inject, for Pods. The order is fixed. The status and scale subresources are never sent
// to /default, and of the status only what others change of the engine's records is sent to /validate: the CRD's schema
// applies to the rest.
func Configurations(
	kinds []*kind.Kind, w Webhooks,
) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	if w.Name == "" {
		w.Name = DefaultName
	}
	meta := metav1.ObjectMeta{Name: w.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "fescue"}}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(),
			Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: meta,
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(),
			Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: meta,
	}
	var annotations []string
	for _, k := range kinds {
		mutating.Webhooks = append(mutating.Webhooks, w.defaulting(k))
		validating.Webhooks = append(validating.Webhooks, w.validating(k))
		if k.Injects() {
			annotations = append(annotations, k.InjectAnnotation)
		}
	}
	mutating.Webhooks = append(mutating.Webhooks, w.Injecting(annotations...)...)
	validating.Webhooks = append(validating.Webhooks, w.recording(kinds)...)
	return mutating, validating
}

// defaulting returns the webhook that sets a kind's defaults. It may be called again after others
// have changed the object, and then adds nothing.
func (w *Webhooks) defaulting(k *kind.Kind) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:                    k.Name(),
		ClientConfig:            w.client(DefaultPath),
		Rules:                   []admissionregistrationv1.RuleWithOperations{ruleFor(k, k.Names.Plural)},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       w.namespaceSelector(),
		ObjectSelector:          &metav1.LabelSelector{}, // set, so that Fescue owns it
		MatchConditions:         notBeingDeleted(),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(objectTimeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
	}
}

// validating returns the webhook that checks an object as it will be stored.
func (w *Webhooks) validating(k *kind.Kind) admissionregistrationv1.ValidatingWebhook {
	resources := []string{k.Names.Plural}
	if k.Scale != nil {
		resources = append(resources, k.Names.Plural+"/"+scaleSubresource)
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    k.Name(),
		ClientConfig:            w.client(ValidatePath),
		Rules:                   []admissionregistrationv1.RuleWithOperations{ruleFor(k, resources...)},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       w.namespaceSelector(),
		ObjectSelector:          &metav1.LabelSelector{}, // set, so that Fescue owns it
		MatchConditions:         notLeftAlone(k),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(objectTimeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// recording returns the webhook that keeps others from changing what the engine records of children. There is none
// without kinds that record any.
func (w *Webhooks) recording(kinds []*kind.Kind) []admissionregistrationv1.ValidatingWebhook {
	var rules []admissionregistrationv1.RuleWithOperations
	for _, k := range kinds {
		if k.RecordsChildren() {
			rule := ruleFor(k, k.Names.Plural+"/"+statusSubresource)
			rule.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
			rules = append(rules, rule)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	inventory := ".?status.?" + kind.ChildInventory
	return []admissionregistrationv1.ValidatingWebhook{{
		Name:              "records.status.fescue.dev",
		ClientConfig:      w.client(ValidatePath),
		Rules:             rules,
		FailurePolicy:     new(admissionregistrationv1.Fail),
		MatchPolicy:       new(admissionregistrationv1.Equivalent),
		NamespaceSelector: w.namespaceSelector(),
		ObjectSelector:    &metav1.LabelSelector{},
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "not-by-the-operator", Expression: fmt.Sprintf("request.userInfo.username != %q", w.User)},
			{Name: "changes-records", Expression: "object" + inventory + " != oldObject" + inventory},
		},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(objectTimeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}}
}

// notBeingDeleted lets finalizers be removed while no replica answers. Otherwise an operator that
// is gone for good would block the deletion of objects and so of their namespaces.
func notBeingDeleted() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "not-being-deleted",
		Expression: "!has(object.metadata.deletionTimestamp)"}}
}

// notLeftAlone is notBeingDeleted, except for what a kind with onDelete may act on: something is still
// created and read for its objects while they are deleted, and anyone who changes that needs the rights.
func notLeftAlone(k *kind.Kind) []admissionregistrationv1.MatchCondition {
	conditions := notBeingDeleted()
	if k.OnDelete != "" {
		conditions[0].Name = "not-being-deleted-or-changed"
		conditions[0].Expression += " || object.metadata.?generation != oldObject.metadata.?generation" +
			" || object.metadata.?labels != oldObject.metadata.?labels || object.metadata.?annotations != oldObject.metadata.?annotations"
	}
	return conditions
}

// namespaceSelector is nil if the webhooks are for all namespaces. It never excludes
// cluster-scoped objects.
func (w *Webhooks) namespaceSelector() *metav1.LabelSelector {
	if len(w.Namespaces) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn,
		Values: slices.Compact(slices.Sorted(slices.Values(w.Namespaces))),
	}}}
}

// ruleFor names all versions: otherwise the API server would convert objects before it sends
// them, and errors would name fields of a version that the user did not write.
func ruleFor(k *kind.Kind, resources ...string) admissionregistrationv1.RuleWithOperations {
	scope := admissionregistrationv1.NamespacedScope
	if k.Scope == apiextensionsv1.ClusterScoped {
		scope = admissionregistrationv1.ClusterScope
	}
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create,
			admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{k.GroupVersionKind.Group}, Resources: resources,
			Scope: &scope},
	}
	for _, version := range k.Versions {
		rule.APIVersions = append(rule.APIVersions, version.GroupVersionKind.Version)
	}
	return rule
}

// Injecting returns the webhooks for new Pods: one for those with an annotation by which Pods ask
// for injection, and one for the others in the namespaces with SelectionLabel, because only the
// objects of a kind define whether they select Pods. There are none without annotations.
func (w *Webhooks) Injecting(annotations ...string) []admissionregistrationv1.MutatingWebhook {
	if len(annotations) == 0 {
		return nil
	}
	var has []string
	for _, annotation := range slices.Compact(slices.Sorted(slices.Values(annotations))) {
		has = append(has, fmt.Sprintf("%q in object.metadata.annotations", annotation))
	}
	asks := "has(object.metadata.annotations) && (" + strings.Join(has, " || ") + ")"
	annotated := w.forPods("annotated.pods.fescue.dev", asks)
	selected := w.forPods("selected.pods.fescue.dev", "!("+asks+")")
	selected.NamespaceSelector.MatchLabels = map[string]string{SelectionLabel: SelectionEnabled}
	return []admissionregistrationv1.MutatingWebhook{annotated, selected}
}

// forPods returns a webhook for new Pods that match a CEL condition. Pods that the cluster needs
// to run are left alone: a slow injector would delay them.
func (w *Webhooks) forPods(name, condition string) admissionregistrationv1.MutatingWebhook {
	excluded := map[string]bool{metav1.NamespaceSystem: true, corev1.NamespaceNodeLease: true}
	if w.Namespace != "" {
		excluded[w.Namespace] = true
	}
	namespaces := w.namespaceSelector()
	if namespaces == nil {
		namespaces = &metav1.LabelSelector{}
	}
	namespaces.MatchExpressions = append(namespaces.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn,
		Values: slices.Sorted(maps.Keys(excluded)),
	})
	return admissionregistrationv1.MutatingWebhook{
		Name:         name,
		ClientConfig: w.client(InjectPath),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
				Resources: []string{"pods"}, Scope: new(admissionregistrationv1.NamespacedScope)},
		}},
		FailurePolicy:     new(admissionregistrationv1.Ignore),
		MatchPolicy:       new(admissionregistrationv1.Equivalent),
		NamespaceSelector: namespaces,
		ObjectSelector:    &metav1.LabelSelector{},
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "asked-for", Expression: condition},
			{Name: "not-a-mirror",
				Expression: fmt.Sprintf("!has(object.metadata.annotations) || !(%q in object.metadata.annotations)",
					mirrorAnnotation)},
		},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(podTimeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
	}
}

// client returns how the API server calls a path.
func (w *Webhooks) client(path string) admissionregistrationv1.WebhookClientConfig {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: w.CABundle}
	if w.URL != "" {
		config.URL = new(strings.TrimSuffix(w.URL, "/") + path)
		return config
	}
	service := *w.Service
	service.Path = &path
	config.Service = &service
	return config
}
