package apiserver

import (
	"context"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	webhookrequest "k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Webhooks are those that are called when objects are written: first those that change them, in their order, and then,
// when the object has been found valid, those that validate it. What selects namespaces is not asked.
type Webhooks struct {
	mutating, validating []webhook.WebhookAccessor
	call                 Call
}

// Call sends a review to the path of a webhook, and returns its answer. It must not use the store that calls it.
type Call func(path string, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error)

// NewWebhooks returns those of configurations.
func NewWebhooks(
	mutating *admissionregistrationv1.MutatingWebhookConfiguration,
	validating *admissionregistrationv1.ValidatingWebhookConfiguration, call Call,
) *Webhooks {
	w := &Webhooks{call: call}
	for i := range mutating.Webhooks {
		w.mutating = append(w.mutating, webhook.NewMutatingWebhookAccessor(fmt.Sprint("m", i), mutating.Name,
			&mutating.Webhooks[i]))
	}
	for i := range validating.Webhooks {
		w.validating = append(w.validating, webhook.NewValidatingWebhookAccessor(fmt.Sprint("v", i), validating.Name,
			&validating.Webhooks[i]))
	}
	return w
}

// conditions compiles those under which webhooks are called.
var conditions = cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))

// mutated returns an object as the webhooks change it. live is what it replaces; nil is nothing.
func (s *Store) mutated(
	t *table, status bool, object, live *unstructured.Unstructured, by author,
) (*unstructured.Unstructured, error) {
	if s.Webhooks == nil {
		return object, nil
	}
	for range 2 { // those that were called before another changed the object are called again
		changed := false
		for _, hook := range s.Webhooks.mutating {
			response, err := s.Webhooks.ask(hook, t.attributes(status, object, live, by))
			switch {
			case err != nil:
				return nil, err
			case response == nil || len(response.Patch) == 0:
				continue
			}
			patched, err := patchedBy(response.Patch, object)
			if err != nil {
				return nil, apierrors.NewInternalError(err)
			}
			if t.isCustom() {
				t.rules.Default(patched)
			}
			object, changed = patched, true
		}
		if !changed {
			break
		}
	}
	return object, nil
}

func patchedBy(text []byte, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	changed, err := patch.Apply(encoded(object))
	if err != nil {
		return nil, err
	}
	return decoded(changed)
}

// validated returns why webhooks reject an object. live is what it replaces; nil is nothing.
func (s *Store) validated(t *table, status bool, object, live *unstructured.Unstructured, by author) error {
	if s.Webhooks == nil {
		return nil
	}
	attributes := t.attributes(status, object, live, by)
	for _, hook := range s.Webhooks.validating {
		if _, err := s.Webhooks.ask(hook, attributes); err != nil {
			return err
		}
	}
	return nil
}

// attributes are what a webhook is told of a request.
func (t *table) attributes(
	status bool, object, live *unstructured.Unstructured, by author,
) *admission.VersionedAttributes {
	operation, options, subresource := admission.Create, runtime.Object(&metav1.CreateOptions{}), ""
	var old runtime.Object // a nil pointer would be one
	if live != nil {
		operation, options, old = admission.Update, &metav1.UpdateOptions{}, live
	}
	if status {
		subresource = "status"
	}
	kind := t.GroupVersion().WithKind(t.Kind)
	attributes := &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(object, old, kind, object.GetNamespace(), object.GetName(),
			t.GroupVersionResource, subresource,
			operation, options, false, &user.DefaultInfo{Name: by.user}),
		VersionedKind: kind,
	}
	attributes.VersionedObject.Set(object)
	if live != nil {
		attributes.VersionedOldObject.Set(live)
	}
	return attributes
}

// ask calls a webhook, and returns its answer; nil if it is not called for a request, or if its failure is ignored. An
// error rejects the request.
func (w *Webhooks) ask(
	hook webhook.WebhookAccessor, of *admission.VersionedAttributes,
) (*webhookrequest.AdmissionResponse, error) {
	isFor := false
	for _, rule := range hook.GetRules() {
		isFor = isFor || (&rules.Matcher{Rule: rule, Attr: of}).Matches()
	}
	if !isFor {
		return nil, nil
	}
	met := hook.GetCompiledMatcher(conditions).Match(context.Background(), of, nil, nil)
	switch {
	case met.Error != nil:
		return nil, apierrors.NewInternalError(met.Error)
	case !met.Matches:
		return nil, nil
	}
	invocation := &generic.WebhookInvocation{Webhook: hook, Resource: of.GetResource(),
		Subresource: of.GetSubresource(), Kind: of.VersionedKind}
	uid, request, _, err := webhookrequest.CreateAdmissionObjects(of, invocation)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	review := request.(*admissionv1.AdmissionReview)
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	answer, err := w.call(*hook.GetClientConfig().Service.Path, review)
	if err != nil {
		if *hook.GetFailurePolicy() == admissionregistrationv1.Ignore {
			return nil, nil
		}
		return nil, apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", hook.GetName(), err))
	}
	_, isMutating := hook.GetMutatingWebhook()
	response, err := webhookrequest.VerifyAdmissionResponse(uid, isMutating, answer)
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", hook.GetName(), err))
	case !response.Allowed:
		return nil, webhookerrors.ToStatusErr(hook.GetName(), response.Result)
	}
	return response, nil
}
