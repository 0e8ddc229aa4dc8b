package types

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The rules below are those of fields that OpenAPI does not tell, by definition, without the part of its name before
// the group. Their source is the validation of Kubernetes, in pkg/apis: what all supported versions reject.

// nonNegative are numbers that may be 0, and no less.
var nonNegative = map[string][]string{
	"apps.v1.DaemonSetSpec": {"minReadySeconds", "revisionHistoryLimit"},
	"apps.v1.DeploymentSpec": {
		"minReadySeconds", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit",
	},
	"apps.v1.ReplicaSetSpec":                     {"minReadySeconds", "replicas"},
	"apps.v1.RollingUpdateStatefulSetStrategy":   {"partition"},
	"apps.v1.StatefulSetOrdinals":                {"start"},
	"apps.v1.StatefulSetSpec":                    {"minReadySeconds", "replicas", "revisionHistoryLimit"},
	"autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas"},
	"batch.v1.CronJobSpec": {
		"failedJobsHistoryLimit", "startingDeadlineSeconds", "successfulJobsHistoryLimit",
	},
	"batch.v1.JobSpec": {"activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completions",
		"maxFailedIndexes", "parallelism", "ttlSecondsAfterFinished"},
}

// bound is the range of a number: up to that of its format, if the highest is 0.
type bound struct{ lowest, highest float64 }

var port = bound{1, 65535}

var bounds = map[string]map[string]bound{
	"autoscaling.v2.HPAScalingPolicy":            {"periodSeconds": {1, 1800}, "value": {lowest: 1}},
	"autoscaling.v2.HPAScalingRules":             {"stabilizationWindowSeconds": {0, 3600}},
	"autoscaling.v2.HorizontalPodAutoscalerSpec": {"maxReplicas": {lowest: 1}},
	"autoscaling.v2.MetricTarget":                {"averageUtilization": {lowest: 1}},
	"core.v1.ClientIPConfig":                     {"timeoutSeconds": {1, 86400}},
	"core.v1.ContainerPort":                      {"containerPort": port, "hostPort": {0, port.highest}},
	"core.v1.EndpointPort":                       {"port": port},
	"core.v1.GRPCAction":                         {"port": port},
	"core.v1.HTTPGetAction":                      {"port": port},
	"core.v1.PreferredSchedulingTerm":            {"weight": {1, 100}},
	"core.v1.ServicePort": {
		"port": port, "targetPort": {0, port.highest}, "nodePort": {0, port.highest},
	},
	"core.v1.TCPSocketAction":          {"port": port},
	"core.v1.TopologySpreadConstraint": {"maxSkew": {lowest: 1}, "minDomains": {lowest: 1}},
	"core.v1.WeightedPodAffinityTerm":  {"weight": {1, 100}},
	"networking.v1.NetworkPolicyPort":  {"port": port, "endPort": port},
	"networking.v1.ServiceBackendPort": {"number": {0, port.highest}},
}

// words are all values that a text may have.
var words = map[string]map[string][]string{
	"apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {
		"whenDeleted": {"Retain", "Delete"}, "whenScaled": {"Retain", "Delete"},
	},
	"autoscaling.v2.HPAScalingPolicy": {"type": {"Pods", "Percent"}},
	"autoscaling.v2.HPAScalingRules":  {"selectPolicy": {"Max", "Min", "Disabled"}},
	"autoscaling.v2.MetricSpec": {
		"type": {"ContainerResource", "External", "Object", "Pods", "Resource"},
	},
	"autoscaling.v2.MetricTarget":                     {"type": {"AverageValue", "Utilization", "Value"}},
	"batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": {"True", "False", "Unknown"}},
	"meta.v1.LabelSelectorRequirement":                {"operator": {"In", "NotIn", "Exists", "DoesNotExist"}},
	"rbac.v1.RoleRef": {
		"apiGroup": {rbacv1.GroupName}, "kind": {"Role", "ClusterRole"},
	},
	"rbac.v1.Subject": {"kind": {"User", "Group", "ServiceAccount"}},
}

// set sets the range of a type.
func (b bound) set(t *Type) {
	t.Minimum = &b.lowest
	if b.highest != 0 {
		t.Maximum = &b.highest
	}
}

// form returns what is wrong with a text.
type form = func(text string) []string

// texts are the forms of texts, and of those in lists.
var texts = map[string]map[string]form{
	"apps.v1.StatefulSetSpec":                    {"serviceName": optional(validation.IsDNS1123Label)},
	"autoscaling.v2.CrossVersionObjectReference": {"name": content.IsPathSegmentName},
	"autoscaling.v2.MetricIdentifier":            {"name": content.IsPathSegmentName},
	"core.v1.NodeSelectorRequirement":            {"key": validation.IsQualifiedName},
	"core.v1.PersistentVolumeClaimSpec":          {"storageClassName": optional(validation.IsDNS1123Subdomain)},
	"core.v1.PodAffinityTerm": {
		"namespaces": validation.IsDNS1123Label, "topologyKey": validation.IsQualifiedName,
	},
	"core.v1.PodDNSConfig": {"nameservers": address},
	"core.v1.ServicePort":  {"name": optional(validation.IsDNS1123Label)},
	"core.v1.ServiceSpec":  {"clusterIP": optional(clusterAddress)},
	"meta.v1.LabelSelectorRequirement": {
		"key": validation.IsQualifiedName, "values": validation.IsValidLabelValue,
	},
	"networking.v1.HTTPIngressPath":       {"path": absolute},
	"networking.v1.IPBlock":               {"cidr": addresses, "except": addresses},
	"networking.v1.IngressRule":           {"host": optional(host)},
	"networking.v1.IngressServiceBackend": {"name": validation.IsDNS1123Label},
	"networking.v1.IngressSpec":           {"ingressClassName": validation.IsDNS1123Subdomain},
	"networking.v1.IngressTLS": {
		"hosts": host, "secretName": optional(validation.IsDNS1123Subdomain),
	},
	"networking.v1.NetworkPolicyPort":  {"port": validation.IsValidPortName},
	"networking.v1.ServiceBackendPort": {"name": optional(validation.IsValidPortName)},
}

// forms are those of the names and the values of the fields of a map.
type forms struct{ key, value form }

var (
	labels    = forms{validation.IsQualifiedName, validation.IsValidLabelValue}
	resources = forms{key: resourceName}
)

// mapped are the forms of maps.
var mapped = map[string]map[string]forms{
	"core.v1.ConfigMap": {"binaryData": {key: validation.IsConfigMapKey}, "data": {key: validation.IsConfigMapKey}},
	"core.v1.LimitRangeItem": {
		"default": resources, "defaultRequest": resources, "max": resources, "maxLimitRequestRatio": resources,
		"min": resources,
	},
	"core.v1.PodSpec":           {"nodeSelector": labels},
	"core.v1.ResourceQuotaSpec": {"hard": {key: quotaResource}},
	"core.v1.Secret": {
		"data": {key: validation.IsConfigMapKey}, "stringData": {key: validation.IsConfigMapKey},
	},
	"core.v1.ServiceSpec":   {"selector": labels},
	"meta.v1.LabelSelector": {"matchLabels": labels},
	"meta.v1.ObjectMeta": {
		"annotations": {key: func(key string) []string { return validation.IsQualifiedName(strings.ToLower(key)) }},
		"labels":      labels,
	},
}

// limited are the resources without a domain that a ResourceQuota or a LimitRange limits, besides huge pages.
var limited = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceRequestsStorage, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	corev1.ResourceLimitsEphemeralStorage, corev1.ResourcePods, corev1.ResourceServices,
	corev1.ResourceReplicationControllers, corev1.ResourceQuotas, corev1.ResourceSecrets, corev1.ResourceConfigMaps,
	corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

// quotaResource is the form of the name of a resource in a quota, which limits no storage alone.
func quotaResource(name string) []string {
	if name == string(corev1.ResourceStorage) {
		return []string{"must be a resource of a quota: write requests.storage"}
	}
	return resourceName(name)
}

// resourceName is the form of the name of a resource in a limit.
func resourceName(name string) []string {
	if strings.Contains(name, "/") {
		return validation.IsQualifiedName(name)
	}
	if slices.Contains(limited, corev1.ResourceName(name)) ||
		strings.HasPrefix(strings.TrimPrefix(name, "requests."), corev1.ResourceHugePagesPrefix) {
		return nil
	}
	known := make([]string, len(limited))
	for i, one := range limited {
		known[i] = string(one)
	}
	return []string{"must be a resource of Kubernetes, or a name with a domain like count/deployments.apps" +
		DidYouMean(name, known)}
}

// optional lets a text be empty.
func optional(f form) form {
	return func(text string) []string {
		if text == "" {
			return nil
		}
		return f(text)
	}
}

// host is the form of a host of an Ingress.
func host(text string) []string {
	if strings.HasPrefix(text, "*") {
		return validation.IsWildcardDNS1123Subdomain(text)
	}
	if len(address(text)) == 0 {
		return []string{"must be a DNS name, not an address"}
	}
	return validation.IsDNS1123Subdomain(text)
}

// address is the form of the address of a host.
func address(text string) []string {
	if _, err := netip.ParseAddr(text); err != nil {
		return []string{`must be an address like "10.0.0.1"`}
	}
	return nil
}

// clusterAddress is the form of the address of a Service.
func clusterAddress(text string) []string {
	if text == corev1.ClusterIPNone || len(address(text)) == 0 {
		return nil
	}
	return []string{`must be "None", or an address like "10.0.0.1"`}
}

// addresses is the form of a range of addresses.
func addresses(text string) []string {
	if _, err := netip.ParsePrefix(text); err != nil {
		return []string{`must be a range of addresses like "10.0.0.0/8"`}
	}
	return nil
}

// absolute is the form of a path of an Ingress.
func absolute(text string) []string {
	if text != "" && !strings.HasPrefix(text, "/") {
		return []string{"must be an absolute path"}
	}
	return nil
}

// restartPolicies are those of the Pods of workloads, by the definition of the workload's spec. The
// source is the validation of Pod templates in pkg/apis/apps/validation and pkg/apis/batch/validation
// of Kubernetes: a Job states its policy, because the default, Always, is not allowed.
var restartPolicies = map[string][]string{
	"batch.v1.JobSpec":                  {"Never", "OnFailure"},
	"apps.v1.DeploymentSpec":            {"Always"},
	"apps.v1.StatefulSetSpec":           {"Always"},
	"apps.v1.DaemonSetSpec":             {"Always"},
	"apps.v1.ReplicaSetSpec":            {"Always"},
	"core.v1.ReplicationControllerSpec": {"Always"},
}

// definitionPrefixes are what a definition has before its group.
var definitionPrefixes = []string{"io.k8s.api.", "io.k8s.apimachinery.pkg.apis."}

// refine adds rules that OpenAPI does not have to a definition.
func (r *reader) refine(definition string, t *Type) {
	i := slices.IndexFunc(definitionPrefixes, func(prefix string) bool { return strings.HasPrefix(definition, prefix) })
	if i < 0 {
		return
	}
	name := definition[len(definitionPrefixes[i]):]
	change := func(field string, change func(*Type)) {
		if known := t.Fields[field]; known != nil {
			changed := *known
			change(&changed)
			t.Fields[field] = &changed
		}
	}
	for field, p := range r.definitions[definition].Properties {
		if p.Format == "int32" {
			change(field, bound{math.MinInt32, math.MaxInt32}.set)
		}
	}
	for _, field := range nonNegative[name] {
		change(field, bound{}.set)
	}
	for field, bound := range bounds[name] {
		change(field, bound.set)
	}
	for field, words := range words[name] {
		change(field, func(t *Type) { t.Enum = words })
	}
	for field, form := range texts[name] {
		change(field, func(t *Type) {
			if t.Items == nil {
				t.Form = form
			} else {
				t.Items = &Type{Values: String, Form: form}
			}
		})
	}
	for field, forms := range mapped[name] {
		change(field, func(t *Type) {
			t.KeyForm = forms.key
			if !t.Others.Quantity {
				t.Others = &Type{Values: t.Others.Values, Form: forms.value, Base64: t.Others.Base64}
			}
		})
	}
	allowed := restartPolicies[name]
	template := t.Fields["template"]
	if allowed == nil || template == nil || template.Fields["spec"] == nil {
		return
	}
	policy := &Type{Values: String, Enum: allowed}
	spec := template.Fields["spec"].with("restartPolicy", policy)
	if !slices.Contains(allowed, "Always") {
		spec.Required = append(slices.Clip(spec.Required), "restartPolicy")
	}
	t.Fields["template"] = template.with("spec", spec)
}

// with returns a copy of a type with another type of a field.
func (t *Type) with(name string, field *Type) *Type {
	changed := *t
	changed.Fields = maps.Clone(t.Fields)
	changed.Fields[name] = field
	return &changed
}

// Choices ends a message on a missing field with the values that it may have; "" if they are not
// known.
func (t *Type) Choices() string {
	if t == nil || len(t.Enum) == 0 {
		return ""
	}
	return ": write " + strings.Join(t.Enum, " or ")
}

// labelNamed are the types of the core group whose names are labels of DNS: Kubernetes gives them host names.
var labelNamed = []string{"Namespace", "Service"}

// maxCronJobName is how long the name of a CronJob may be: those of its Jobs have 11 characters more.
const maxCronJobName = validation.DNS1035LabelMaxLength - 11

// subdomainRule says what a subdomain of DNS is, with the most characters that it may have.
const subdomainRule = "lower case letters, digits, '-' and '.', begin and end with a letter or digit, and have at " +
	"most %d characters"

// NameProblems returns why an object of a type cannot have a name, and a rule for people that says what it may be. A
// Service may also need to begin with a letter: that depends on the release of Kubernetes.
func NameProblems(gvk schema.GroupVersionKind, name string) (problems []string, rule string) {
	switch {
	case slices.Contains(PathNamed, gvk.Kind):
		return nil, ""
	case gvk.Group == "" && slices.Contains(labelNamed, gvk.Kind):
		return validation.IsDNS1123Label(name),
			"lower case letters, digits and '-', begin and end with a letter or digit, and have at most 63 characters"
	case gvk.Group == "batch" && gvk.Kind == "CronJob":
		problems = validation.IsDNS1123Subdomain(name)
		if len(name) > maxCronJobName {
			problems = append(problems, validation.MaxLenError(maxCronJobName))
		}
		return problems, fmt.Sprintf(subdomainRule, maxCronJobName)
	}
	return validation.IsDNS1123Subdomain(name), fmt.Sprintf(subdomainRule, validation.DNS1123SubdomainMaxLength)
}
