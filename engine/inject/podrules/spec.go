package podrules

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// metadata follows ValidateObjectMeta for what can be added to.
func (v *validator) metadata(pod *corev1.Pod, path *field.Path) {
	v.errs = append(v.errs, metav1validation.ValidateLabels(pod.Labels, path.Child("labels"))...)
	v.errs = append(v.errs, apivalidation.ValidateAnnotations(pod.Annotations, path.Child("annotations"))...)
}

// settings follows ValidatePodSpec for what is not a container or a volume.
func (v *validator) settings(path *field.Path) {
	s := v.spec
	oneOf(v, path.Child("restartPolicy"), s.RestartPolicy, "", corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOf(v, path.Child("dnsPolicy"), s.DNSPolicy, "", corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	if s.PreemptionPolicy != nil {
		oneOf(v, path.Child("preemptionPolicy"), *s.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	if s.ActiveDeadlineSeconds != nil {
		v.inRange(path.Child("activeDeadlineSeconds"), *s.ActiveDeadlineSeconds, 1, 1<<31-1)
	}
	v.errs = append(v.errs, metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	v.label(path.Child("hostname"), s.Hostname)
	v.label(path.Child("subdomain"), s.Subdomain)
	v.subdomain(path.Child("serviceAccountName"), s.ServiceAccountName)
	v.subdomain(path.Child("nodeName"), s.NodeName)
	v.subdomain(path.Child("priorityClassName"), s.PriorityClassName)
	if s.RuntimeClassName != nil {
		v.invalid(path.Child("runtimeClassName"), *s.RuntimeClassName, validation.IsDNS1123Subdomain(*s.RuntimeClassName)...)
	}
	for i, alias := range s.HostAliases {
		path := path.Child("hostAliases").Index(i)
		v.errs = append(v.errs, validation.IsValidIPForLegacyField(path.Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			v.invalid(path.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name)...)
		}
	}
	for i, gate := range s.ReadinessGates {
		v.invalid(path.Child("readinessGates").Index(i).Child("conditionType"), gate.ConditionType, validation.IsQualifiedName(string(gate.ConditionType))...)
	}
	for i, gate := range s.SchedulingGates {
		v.invalid(path.Child("schedulingGates").Index(i).Child("name"), gate.Name, validation.IsQualifiedName(gate.Name)...)
	}
	v.tolerations(path.Child("tolerations"))
	v.podSecurityContext(path.Child("securityContext"))
}

func (v *validator) label(path *field.Path, value string) {
	if value != "" {
		v.invalid(path, value, validation.IsDNS1123Label(value)...)
	}
}

func (v *validator) subdomain(path *field.Path, value string) {
	if value != "" {
		v.invalid(path, value, validation.IsDNS1123Subdomain(value)...)
	}
}

// tolerations follows ValidateTolerations.
func (v *validator) tolerations(path *field.Path) {
	for i, t := range v.spec.Tolerations {
		path := path.Index(i)
		if t.Key != "" {
			v.invalid(path.Child("key"), t.Key, validation.IsQualifiedName(t.Key)...)
		} else if t.Operator != corev1.TolerationOpExists {
			v.invalid(path.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			v.invalid(path.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		oneOf(v, path.Child("effect"), t.Effect, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		switch t.Operator {
		case "", corev1.TolerationOpEqual:
			v.invalid(path.Child("value"), t.Value, validation.IsValidLabelValue(t.Value)...)
		case corev1.TolerationOpExists:
			if t.Value != "" {
				v.invalid(path.Child("value"), t.Value, "value must be empty when `operator` is 'Exists'")
			}
		default:
			v.add(field.NotSupported(path.Child("operator"), t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
		}
	}
}
