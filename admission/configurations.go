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
	// objectTimeoutSeconds is how long a write of an object of a kind waits for us: the API
	// server's default. It fails if no answer comes.
	objectTimeoutSeconds = 10
	// podTimeoutSeconds is how long a Pod waits for us, which is then created without what
	// it asked for. Shorter ones are too short when a whole deployment restarts.
	podTimeoutSeconds = 5
)

// SelectionLabel is set to SelectionEnabled on the namespaces in which objects may select
// Pods that carry no annotation. The API server cannot know selectors, so all new Pods
// of these namespaces come to us, and none of others.
const (
	SelectionLabel   = "fescue.dev/selection"
	SelectionEnabled = "enabled"
)

// DefaultName is what both configurations are called if nothing else is said.
const DefaultName = "fescue"

// mirrorAnnotation marks Pods that a kubelet has read from a file and that nothing
// can change.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// Webhooks says where and how the API server finds the webhooks.
type Webhooks struct {
	// Name of both configurations; "" means DefaultName.
	Name string
	// URL is what the paths are added to, as in https://10.0.0.1:9443; "" means that
	// Service is given.
	URL string
	// Service is where the server is reached in the cluster.
	Service *admissionregistrationv1.ServiceReference
	// CABundle is the PEM text of the certificates that the API server trusts; nil leaves
	// this to others, such as cert-manager.
	CABundle []byte
	// Namespace is the one that Fescue runs in, whose Pods must start without it; "" is none.
	Namespace string
	// Namespaces limits the webhooks to these; none means all.
	Namespaces []string
	// Injections are the kinds that inject; without any, Pods are left alone.
	Injections Injections
}

// Configurations are what the API server has to know to call the webhooks for kinds. They
// are in a fixed order. The status and scale subresources never come to /default, and the
// status not to /validate either: the engine writes it, and the CRD's schema holds for it.
func Configurations(kinds []*kind.Kind, w Webhooks) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	if w.Name == "" {
		w.Name = DefaultName
	}
	meta := metav1.ObjectMeta{Name: w.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "fescue"}}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: meta,
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: meta,
	}
	for _, k := range kinds {
		mutating.Webhooks = append(mutating.Webhooks, w.defaulting(k))
		validating.Webhooks = append(validating.Webhooks, w.validating(k))
	}
	mutating.Webhooks = append(mutating.Webhooks, w.injecting()...)
	return mutating, validating
}

// defaulting is the webhook that sets a kind's defaults. It may be called again after others
// have changed the object, and then finds nothing to add.
func (w *Webhooks) defaulting(k *kind.Kind) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:                    k.Definition().Name,
		ClientConfig:            w.client(DefaultPath),
		Rules:                   []admissionregistrationv1.RuleWithOperations{ruleFor(k, k.Names.Plural)},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       w.namespaceSelector(),
		ObjectSelector:          &metav1.LabelSelector{}, // said, so that it is ours
		MatchConditions:         notBeingDeleted(),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(objectTimeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
	}
}

// validating is the webhook that sees an object as it will be stored.
func (w *Webhooks) validating(k *kind.Kind) admissionregistrationv1.ValidatingWebhook {
	resources := []string{k.Names.Plural}
	if k.Scale != nil {
		resources = append(resources, k.Names.Plural+"/"+scaleSubresource)
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    k.Definition().Name,
		ClientConfig:            w.client(ValidatePath),
		Rules:                   []admissionregistrationv1.RuleWithOperations{ruleFor(k, resources...)},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       w.namespaceSelector(),
		ObjectSelector:          &metav1.LabelSelector{}, // said, so that it is ours
		MatchConditions:         notBeingDeleted(),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(objectTimeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// notBeingDeleted lets finalizers come off while nobody answers: without it, an operator
// that is gone for good keeps objects, and with them their namespaces, from going as well.
func notBeingDeleted() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "not-being-deleted", Expression: "!has(object.metadata.deletionTimestamp)"}}
}

// namespaceSelector is nil if the webhooks are for all namespaces. It never excludes what lives
// in none.
func (w *Webhooks) namespaceSelector() *metav1.LabelSelector {
	if len(w.Namespaces) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(slices.Sorted(slices.Values(w.Namespaces))),
	}}}
}

// ruleFor names all versions: the API server would otherwise convert objects before it
// sends them, and errors would name fields of another version than the user wrote.
func ruleFor(k *kind.Kind, resources ...string) admissionregistrationv1.RuleWithOperations {
	scope := admissionregistrationv1.NamespacedScope
	if k.Scope == apiextensionsv1.ClusterScoped {
		scope = admissionregistrationv1.ClusterScope
	}
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{k.GroupVersionKind.Group}, Resources: resources, Scope: &scope},
	}
	for _, version := range k.Versions {
		rule.APIVersions = append(rule.APIVersions, version.GroupVersionKind.Version)
	}
	return rule
}

// injecting are the webhooks for Pods: one for those that ask by annotation, and, if a
// kind can select Pods, one for the others in the namespaces that have this enabled.
func (w *Webhooks) injecting() []admissionregistrationv1.MutatingWebhook {
	var annotations []string
	bySelector := false
	for _, injection := range w.Injections {
		if injection.Annotation != "" {
			annotations = append(annotations, injection.Annotation)
		}
		bySelector = bySelector || injection.BySelector
	}
	slices.Sort(annotations)
	annotations = slices.Compact(annotations)

	asks := "false"
	if len(annotations) > 0 {
		var has []string
		for _, annotation := range annotations {
			has = append(has, fmt.Sprintf("%q in object.metadata.annotations", annotation))
		}
		asks = "has(object.metadata.annotations) && (" + strings.Join(has, " || ") + ")"
	}
	var webhooks []admissionregistrationv1.MutatingWebhook
	if len(annotations) > 0 {
		webhooks = append(webhooks, w.forPods("annotated.pods.fescue.dev", asks))
	}
	if bySelector {
		selecting := w.forPods("selected.pods.fescue.dev", "!("+asks+")")
		selecting.NamespaceSelector.MatchLabels = map[string]string{SelectionLabel: SelectionEnabled}
		webhooks = append(webhooks, selecting)
	}
	return webhooks
}

// forPods is a webhook for new Pods that a condition in CEL holds for. Pods that the
// cluster cannot do without are left alone: an injector that is slow would hold them up.
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
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: slices.Sorted(maps.Keys(excluded)),
	})
	return admissionregistrationv1.MutatingWebhook{
		Name:         name,
		ClientConfig: w.client(InjectPath),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: new(admissionregistrationv1.NamespacedScope)},
		}},
		FailurePolicy:     new(admissionregistrationv1.Ignore),
		MatchPolicy:       new(admissionregistrationv1.Equivalent),
		NamespaceSelector: namespaces,
		ObjectSelector:    &metav1.LabelSelector{},
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "asked-for", Expression: condition},
			{Name: "not-a-mirror", Expression: fmt.Sprintf("!has(object.metadata.annotations) || !(%q in object.metadata.annotations)", mirrorAnnotation)},
		},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(podTimeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
	}
}

// client says how the API server calls a path.
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
