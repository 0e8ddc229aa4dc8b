package install

import (
	"bytes"
	"fmt"
	"maps"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
)

// Part is a group of objects that are applied together. Its name is its folder in the
// kustomize layout, which several parts can share.
type Part struct {
	Name    string
	Objects []*unstructured.Unstructured
}

// The parts, by the names that kubebuilder gives their folders.
const (
	partNamespace  = "namespace"
	partCRD        = "crd"
	partRBAC       = "rbac"
	partManager    = "manager"
	partWebhook    = "webhook"
	partPrometheus = "prometheus"
	partNetwork    = "network-policy"
)

// Parts returns everything that an installation consists of, in the order in which to apply
// it; the first object is the namespace, unless others share it. An
// error names the option or the kind that is wrong.
func Parts(kinds []*kind.Kind, o Options) ([]Part, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	definitions, err := definitionsOf(kinds, o)
	if err != nil {
		return nil, err
	}
	return partsWith(definitions, kinds, o)
}

// kept are annotations by which Helm, Argo CD and Flux do not delete a CRD that they do not find any more: Kubernetes
// would delete all objects of the kind with it.
var kept = map[string]string{
	"helm.sh/resource-policy":           "keep",
	"argocd.argoproj.io/sync-options":   "Prune=false,Delete=false",
	"kustomize.toolkit.fluxcd.io/prune": "disabled",
}

// definitionsOf returns the CRDs of kinds.
func definitionsOf(kinds []*kind.Kind, o Options) ([]runtime.Object, error) {
	var definitions []runtime.Object
	for _, k := range kind.WithoutDecorators(kinds) {
		definition, err := crds.Object(k, false)
		if err != nil {
			return nil, err
		}
		service := &apiextensionsv1.ServiceReference{Namespace: o.Namespace, Name: crds.WebhookService}
		if err := crds.CallAt(definition, k, crds.Webhook{Service: service}); err != nil {
			return nil, err
		}
		annotations := definition.GetAnnotations()
		maps.Copy(annotations, kept)
		definition.SetAnnotations(annotations)
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// partsWith is Parts with CRDs that were made before, for options that are complete.
func partsWith(definitions []runtime.Object, kinds []*kind.Kind, o Options) ([]Part, error) {
	roles, err := operatorRoles(o, kinds)
	if err != nil {
		return nil, err
	}
	rights := append([]runtime.Object{serviceAccount(o)}, roles...)
	for _, k := range kind.WithoutDecorators(kinds) {
		if o.Webhooks == nil && k.Versions.Converts() {
			return nil, fmt.Errorf("kind %s: it has conversions, which need the webhooks", k.GroupVersionKind.Kind)
		}
		rights = append(rights, userRoles(k)...)
	}
	var webhooks, webhookService, monitoring []runtime.Object
	if o.Webhooks != nil {
		webhooks = o.Webhooks.Configurations
		webhookService = []runtime.Object{service(o.Webhooks.Service, o.Namespace, 443, "webhooks")}
	}
	if o.Monitoring {
		monitoring = monitoringObjects(o)
	}
	var parts []Part
	for _, part := range []struct {
		name    string
		objects []runtime.Object
	}{
		{partNamespace, namespaceObjects(o)},
		// Before the CRDs, so that no object is stored unchecked.
		{partWebhook, webhooks},
		{partCRD, definitions}, {partRBAC, rights}, {partNetwork, networkPolicies(o)}, {partManager, managerObjects(o)},
		{partWebhook, webhookService}, {partPrometheus, monitoring},
	} {
		if len(part.objects) == 0 {
			continue
		}
		cleaned := Part{Name: part.name}
		for _, typed := range part.objects {
			object, err := clean(typed)
			if err != nil {
				return nil, err
			}
			cleaned.Objects = append(cleaned.Objects, object)
		}
		parts = append(parts, cleaned)
	}
	return parts, nil
}

// Objects returns the objects of all parts, in order.
func Objects(parts []Part) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, part := range parts {
		objects = append(objects, part.Objects...)
	}
	return objects
}

// YAML prints objects as one stream of documents.
func YAML(objects []*unstructured.Unstructured) ([]byte, error) {
	var out bytes.Buffer
	for i, object := range objects {
		text, err := textOf(object)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

// textOf returns an object as YAML. A ConfigMap has files, whose lines one wants to see in a review: the library that
// Kubernetes' tools use writes a text with tabs, as CUE's are, quoted and on one line.
func textOf(object *unstructured.Unstructured) ([]byte, error) {
	if object.GetKind() != "ConfigMap" {
		return yaml.Marshal(object.Object)
	}
	var text bytes.Buffer
	encoder := yamlv3.NewEncoder(&text)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	err := encoder.Encode(object.Object)
	return text.Bytes(), err
}

// clean returns an object as a person would write it: without a status and without the empty
// fields that Go types print.
func clean(object runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("%T: %w", object, err)
	}
	cleaned := &unstructured.Unstructured{Object: content}
	delete(content, "status")
	switch cleaned.GetKind() {
	case "Deployment":
		unstructured.RemoveNestedField(content, "spec", "strategy")
	case "Namespace":
		delete(content, "spec")
	}
	dropNull(content)
	return cleaned, nil
}

// dropNull removes fields that are null, like the creationTimestamp of older types.
func dropNull(part any) {
	switch part := part.(type) {
	case map[string]any:
		for field, value := range part {
			if value == nil {
				delete(part, field)
			}
			dropNull(value)
		}
	case []any:
		for _, value := range part {
			dropNull(value)
		}
	}
}

func typeMeta(gv schema.GroupVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: gv.String(), Kind: kind}
}

// fileName returns the name of an object's file in the kustomize layout.
func fileName(object *unstructured.Unstructured) string {
	called := strings.ReplaceAll(object.GetName(), ":", "-")
	if object.GetKind() == "CustomResourceDefinition" {
		plural, group, _ := strings.Cut(called, ".")
		return group + "_" + plural + ".yaml" // as controller-gen does
	}
	return strings.ToLower(object.GetKind()) + "-" + called + ".yaml"
}
